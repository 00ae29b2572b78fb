"""Owns how an audit goes on where the one before ended: what is left to read, and what is known together.

Must not know where a state is kept, how its files look, or Spark. Without a place nothing is remembered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.audit_state import Contents, StateHead, encode_head
from gapless_archive.store.state_place import blocks_name
from gapless_spark.audit.first_records import contents_of
from gapless_spark.audit.state import (
    BlocksWriter,
    from_the_log_start,
    merged,
    overtaken,
    read_blocks,
    read_head,
    read_topics,
    unread_of,
)
from gapless_spark.model.bitmaps import highest_offset
from gapless_spark.model.event_keys import FOREIGN
from gapless_spark.model.expired_records import Frontiers, restart_partitions, update_from_received
from gapless_spark.model.generations import Generations, resolve_generations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.store.state_place import StatePlace
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.model.bitmaps import Received
    from gapless_spark.model.event_keys import Block
    from gapless_spark.model.generations import Origin, RecreatedTopic


class AuditMemory(AbstractContextManager["AuditMemory"]):
    """The state at a place, which is this program's own while the block lasts."""

    def __init__(self, place: StatePlace | None) -> None:
        self._place = place
        self._head: StateHead | None = None
        self.goes_on = False
        """Whether earlier runs have read something."""
        self.details: dict[str, Any] = {}
        """What the report says of the state, once everything was recalled."""
        self.frontiers = Frontiers({})
        """Up to where what was received is not known, once `look_at_first_records` was called."""
        self.written = ""
        """What was written, or perhaps was, for whoever stops this run."""
        self._contents: dict[str, Contents] = {}
        self._generations = Generations()

    def __enter__(self) -> Self:
        """Read the head of the state. Raises StateError when it cannot be used."""
        if self._place is not None:
            self._place.__enter__()
            try:
                content = self._place.head()
                self._head = None if content is None else read_head(content, self._place.name)
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
            return replace(cut, topics=tuple(map(from_the_log_start, cut.topics)))
        return unread_of(self._head, cut, self._place.name)

    def compare_generations(
        self,
        origins: Mapping[TopicPartition, Origin],
        replaced: Iterable[RecreatedTopic],
        confirmed: Collection[tuple[str, str]],
    ) -> None:
        """Take what inventories say of the upstream topics. Raises ConfigurationError like `resolve_generations`."""
        known = self._head.upstream if self._head is not None else ()
        self._generations = resolve_generations(known, origins, replaced, confirmed)

    @property
    def restarted(self) -> frozenset[TopicPartition]:
        """Source partitions of upstream topics that were recreated: their offsets named other events before."""
        return self._generations.restarted

    def look_at_first_records(self, connection: KafkaConnection, cut: Cut) -> None:
        """Find out up to where what was received is not known, because records were deleted unread.

        Args:
            connection: to Kafka.
            cut: what is unread.

        Raises:
            SourceUnreachableError: Kafka denies access.
            SourceStalledError: nothing came for a minute.
        """
        known = {topic.topic: topic.contents for topic in self._head.topics} if self._head is not None else {}
        known = {name: restart_partitions(contents, self._generations.restarted) for name, contents in known.items()}
        self._contents = contents_of(connection, cut, known)
        self._draw_frontiers(cut)

    def look_again(self, connection: KafkaConnection, cut: Cut, now: Cut) -> Cut:
        """Find out the same of what was deleted while it was read, and return `cut` with it among what has expired.

        Args:
            connection: to Kafka.
            cut: what was to be read.
            now: its topics afterwards.

        Raises:
            ConfigurationError: a topic was deleted and recreated meanwhile.
            SourceUnreachableError: Kafka denies access.
            SourceStalledError: nothing came for a minute.
        """
        found = overtaken(cut, now)
        if found is None:
            return cut
        expired, left = found
        self._contents = contents_of(connection, left, self._contents)
        self._draw_frontiers(expired)
        return expired

    def _draw_frontiers(self, cut: Cut) -> None:
        partitions = {topic.topic: len(topic.end_offsets) for topic in cut.topics}
        self.frontiers = Frontiers({name: (partitions[name], found) for name, found in self._contents.items()})

    def recall(self, new: Mapping[Block, Received], cut: Cut) -> Iterator[tuple[Block, Received]]:
        """Yield all that is known, in the order of the blocks, and keep it when the last one was taken.

        The frontiers are certain only then: they depend on what earlier audits have read.

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
        topics, upstream = read_topics(cut, self._contents), self._generations.upstream
        highest_before: dict[TopicPartition, int] = {}
        highest_now: dict[TopicPartition, int] = {}
        before = _noting(self._before(), highest_before)
        if head is not None and (head.topics, head.upstream) == (topics, upstream):
            yield from before  # nothing is new
            self._tell(head, head)
            return
        generation = head.generation + 1 if head is not None else 1
        file = blocks_name(generation)
        with place.blocks_written(file) as stream:
            writer = BlocksWriter(stream)
            yield from writer.write_all(_noting(merged(before, new), highest_now))
        for topic in cut.topics:
            if topic.topic in self._contents:
                self._contents[topic.topic] = update_from_received(
                    self._contents[topic.topic], topic.expired, highest_before, highest_now
                )
        self._draw_frontiers(cut)
        following = StateHead(
            generation=generation,
            written=moment_text(datetime.now(UTC)),
            cluster_id=cut.cluster_id,
            topics=read_topics(cut, self._contents),
            records=writer.records,
            blocks_file=file,
            blocks_bytes=writer.bytes,
            blocks_sha256=writer.sha256,
            upstream=upstream,
        )
        self.written = f"perhaps the state {place.name}"
        place.commit(encode_head(following), file)
        self.written = f"the state {place.name}"
        self._tell(head, following, sum(received.records for received in new.values()))

    def _before(self) -> Iterator[tuple[Block, Received]]:
        """What earlier runs have read, without what was of upstream topics that no longer exist."""
        place, head = self._place, self._head
        if place is None or head is None:
            return
        restarted = self._generations.restarted
        for block, received in read_blocks(place.blocks(head.blocks_file), head, place.name):
            if (block.topic, block.partition) not in restarted:
                yield block, received

    def _tell(self, before: StateHead | None, now: StateHead, new: int = 0) -> None:
        self.details = {
            "state": {
                "place": self._place.name if self._place is not None else None,
                "generation": now.generation,
                "continues": before.written if before is not None else None,
                "records_before": now.records - new,
                "records_new": new,
                "bytes": now.blocks_bytes + len(encode_head(now)),
            }
        }


def _noting(
    blocks: Iterable[tuple[Block, Received]], highest: dict[TopicPartition, int]
) -> Iterator[tuple[Block, Received]]:
    """Pass `blocks`, which come in their order, and note the highest offset of each source partition."""
    for block, received in blocks:
        if block != FOREIGN and received.positions:
            highest[block.topic, block.partition] = highest_offset(block, received)
        yield block, received
