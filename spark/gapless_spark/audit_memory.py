"""Owns how an audit goes on where the one before ended: what is left to read, and what is known together.

Must not know where a state is kept, how its files look, or Spark. Without a place nothing is remembered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gapless_api.marks import moment_text
from gapless_spark.audit_state import BlocksWriter, StateHead, merged, read_blocks, read_topics
from gapless_spark.state_place import blocks_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_spark.event_keys import Block
    from gapless_spark.kafka_source import Cut
    from gapless_spark.received import Received
    from gapless_spark.state_place import StatePlace


class AuditMemory(AbstractContextManager["AuditMemory"]):
    """The state at a place, which is this program's own while the block lasts."""

    def __init__(self, place: StatePlace | None) -> None:
        self._place = place
        self._head: StateHead | None = None
        self.goes_on = False
        """Whether earlier runs have read something."""
        self.details: dict[str, Any] = {}
        """What the report says of the state, once everything was recalled."""

    def __enter__(self) -> Self:
        """Read the head of the state. Raises StateError when it cannot be used."""
        if self._place is not None:
            self._place.__enter__()
            try:
                content = self._place.head()
                self._head = None if content is None else StateHead.decode(content, self._place.name)
            except BaseException:
                self._place.__exit__()
                raise
            self.goes_on = self._head is not None
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the place."""
        if self._place is not None:
            self._place.__exit__()

    def unread(self, cut: Cut) -> Cut:
        """The part of `cut` that no earlier run has read. Raises StateError when the state is not of these topics."""
        if self._place is None or self._head is None:
            return cut
        return self._head.unread(cut, self._place.name)

    def recall(self, new: Mapping[Block, Received], cut: Cut) -> Iterator[tuple[Block, Received]]:
        """Yield all that is known, in the order of the blocks, and keep it when the last one was taken.

        Args:
            new: what was read now.
            cut: how far.

        Raises:
            StateError: the state is damaged, or another audit has changed it.
            LocalStorageError: the new state cannot be written; the one before remains.
            StoreUnreachableError: the same, for an object store.
        """
        place, head = self._place, self._head
        if place is None:
            yield from merged((), new)
            return
        topics = read_topics(cut)
        before = read_blocks(place.blocks(head.blocks_file), head, place.name) if head is not None else iter(())
        if head is not None and head.topics == topics:
            yield from before  # no offset is new
            self._tell(head, head)
            return
        generation = head.generation + 1 if head is not None else 1
        file = blocks_name(generation)
        with place.blocks_written(file) as stream:
            writer = BlocksWriter(stream)
            yield from writer.write_all(merged(before, new))
        following = StateHead(
            generation=generation,
            written=moment_text(datetime.now(UTC)),
            cluster_id=cut.cluster_id,
            topics=topics,
            records=writer.records,
            blocks_file=file,
            blocks_bytes=writer.bytes,
            blocks_sha256=writer.sha256,
        )
        place.commit(following.encode(), file)
        self._tell(head, following)

    def _tell(self, before: StateHead | None, now: StateHead) -> None:
        known = before.records if before is not None else 0
        self.details = {
            "state": {
                "place": self._place.name if self._place is not None else None,
                "generation": now.generation,
                "continues": before.written if before is not None else None,
                "records_before": known,
                "records_new": now.records - known,
                "bytes": now.blocks_bytes + len(now.encode()),
            }
        }
