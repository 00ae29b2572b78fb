"""How an audit continues from the previous one: the offsets left to read, and the merged result of all audits.

Must not know where a state is stored, the format of its files, or Spark. Without a place nothing is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.audit_state import Contents, StateHead, encode_head
from gapless_api.wire.bundle_origin import BundleOrigin
from gapless_archive.store.state_place import StatePlace, blocks_name
from gapless_spark.audit.first_records import contents_of
from gapless_spark.audit.state import (
    BlocksWriter,
    check_not_truncated,
    check_unchanged,
    expired_during_read,
    from_log_start,
    merge_blocks,
    read_blocks,
    read_head,
    read_logs,
    topic_positions,
    unread_cut,
)
from gapless_spark.model.bitmaps import Received, highest_offset, offsets_below
from gapless_spark.model.event_keys import FOREIGN, Block
from gapless_spark.model.expired_records import Frontiers, restart_partitions, update_from_received
from gapless_spark.model.generations import Generations, Origin, RecreatedTopic, resolve_generations
from gapless_spark.model.upstream_logs import RecordedLog, next_logs, replaced_from, unknown_offsets

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.model.listed_logs import ListedLog, TruncatedPartition


class AuditState(AbstractContextManager["AuditState"]):
    """The state at a place. A folder is locked inside the ``with`` block; in a store, a concurrent change fails."""

    def __init__(self, place: StatePlace | None) -> None:
        self._place = place
        self._head: StateHead | None = None
        self.details: dict[str, Any] = {}
        """The state in the report; set when all blocks were merged."""
        self.frontiers = Frontiers({})
        """The highest unknown offsets; set by `check_first_records`."""
        self.written = ""
        """What was written, or may have been, for the message when the run is stopped."""
        self._contents: dict[str, Contents] = {}
        self._generations = Generations()
        self._listed: Mapping[TopicPartition, ListedLog] = {}
        self._truncated: Sequence[TruncatedPartition] = ()

    def __enter__(self) -> Self:
        """Lock the place and read the head of the state. Raises StateError."""
        if self._place is not None:
            self._place.__enter__()
            try:
                content = self._place.head()
                self._head = None if content is None else read_head(content, self._place.name)
            except BaseException:
                self._place.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Release the place."""
        if self._place is not None:
            self._place.__exit__()

    def unread(self, cut: Cut) -> Cut:
        """Return the part of `cut` that no earlier audit has read. Raises StateError when the topics do not match."""
        if self._place is None or self._head is None:
            return replace(cut, topics=tuple(map(from_log_start, cut.topics)))
        return unread_cut(self._head, cut, self._place.name)

    def compare_generations(
        self,
        origins: Mapping[TopicPartition, Origin],
        replaced: Iterable[RecreatedTopic],
        confirmed: Collection[tuple[str, str]],
    ) -> None:
        """Compare the upstream topics with those of the state. Raises ConfigurationError like `resolve_generations`."""
        known = self._head.upstream if self._head is not None else ()
        self._generations = resolve_generations(known, origins, replaced, confirmed)

    @property
    def recorded_logs(self) -> tuple[RecordedLog, ...]:
        """The upstream logs that earlier audits have seen. Raises StateError."""
        if self._place is None or self._head is None:
            return ()
        return read_logs(self._head, self._place.name)

    def record_logs(self, listed: Mapping[TopicPartition, ListedLog], found: Sequence[TruncatedPartition]) -> None:
        """Set the upstream logs of this audit's inventories, and the truncations that no earlier audit has found."""
        self._listed, self._truncated = listed, found

    @property
    def unknown_offsets(self) -> dict[TopicPartition, OffsetRanges]:
        """Offsets of truncated upstream logs that are unknown until they are received again."""
        return unknown_offsets(self.recorded_logs, self.restarted)

    @property
    def origin(self) -> BundleOrigin:
        """The upstream topics of the events, as far as known from inventories."""
        return BundleOrigin(upstream=self._generations.upstream)

    @property
    def restarted(self) -> frozenset[TopicPartition]:
        """Source partitions of upstream topics that were recreated: their offsets identified other events before."""
        return self._generations.restarted

    def check_first_records(self, connection: KafkaConnection, cut: Cut) -> None:
        """Determine the frontiers: the offsets that are unknown because records were deleted unread.

        Args:
            connection: to Kafka.
            cut: the unread offsets.

        Raises:
            StateError: Kafka has truncated a topic, so that the state does not belong to it.
            SourceUnreachableError: Kafka denies access.
            SourceStalledError: Kafka sent nothing for a minute.
        """
        if self._place is not None and self._head is not None:
            check_not_truncated(self._head, cut, connection, self._place.name)
        known = {topic.topic: topic.contents for topic in self._head.topics} if self._head is not None else {}
        known = {name: restart_partitions(contents, self._generations.restarted) for name, contents in known.items()}
        self._contents = contents_of(connection, cut, known)
        self._update_frontiers(cut)

    def recheck_expired(self, connection: KafkaConnection, cut: Cut, now: Cut) -> Cut:
        """Update the frontiers for records deleted during the read, and return `cut` with their partitions as expired.

        Args:
            connection: to Kafka.
            cut: the offsets that were read.
            now: the topics after the read.

        Raises:
            ConfigurationError: a topic was deleted and recreated, or truncated, meanwhile.
            SourceUnreachableError: Kafka denies access.
            SourceStalledError: Kafka sent nothing for a minute.
        """
        check_unchanged(connection, cut, now)
        result = expired_during_read(cut, now)
        if result is None:
            return cut
        expired, remaining = result
        self._contents = contents_of(connection, remaining, self._contents)
        self._update_frontiers(expired)
        return expired

    def _update_frontiers(self, cut: Cut) -> None:
        partitions = {topic.topic: len(topic.end_offsets) for topic in cut.topics}
        held_back = {topic.topic: topic.held_back for topic in cut.topics}
        topics = {name: (partitions[name], contents) for name, contents in self._contents.items()}
        self.frontiers = Frontiers(topics, held_back)

    def merge_and_commit(self, new: Mapping[Block, Received], cut: Cut) -> Iterator[tuple[Block, Received]]:
        """Yield the blocks of the state merged with `new`, in order, and commit the new state after the last one.

        The frontiers are final only then, because they depend on what earlier audits have read.

        Args:
            new: the blocks that this audit has read.
            cut: the offsets that it has read.

        Raises:
            StateError: the state is damaged, or another audit has changed it.
            LocalStorageError: the new state cannot be written; the previous one remains.
            StoreUnreachableError: the same, for an object store.
        """
        place, head = self._place, self._head
        if place is None:
            yield from merge_blocks((), new)
            return
        topics, upstream = topic_positions(cut, self._contents), self._generations.upstream
        highest_ever: dict[TopicPartition, int] = {}
        highest_before: dict[TopicPartition, int] = {}
        highest_now: dict[TopicPartition, int] = {}
        before = _track_highest_offsets(self._without_replaced(self._previous_blocks(), highest_ever), highest_before)
        new = dict(self._without_replaced(new.items(), highest_ever))
        logs = next_logs(self.recorded_logs, self._listed, self._truncated, highest_ever)
        if head is not None and (head.topics, head.upstream, head.upstream_logs) == (topics, upstream, logs):
            yield from before  # nothing is new
            self._set_details(head, head)
            return
        generation = head.generation + 1 if head is not None else 1
        file = blocks_name(generation)
        with place.new_blocks(file) as stream:
            writer = BlocksWriter(stream)
            yield from writer.write_all(_track_highest_offsets(merge_blocks(before, new), highest_now))
        for topic in cut.topics:
            if topic.topic in self._contents:
                self._contents[topic.topic] = update_from_received(
                    self._contents[topic.topic], topic.expired, highest_before, highest_now
                )
        self._update_frontiers(cut)
        following = StateHead(
            generation=generation,
            written=moment_text(datetime.now(UTC)),
            cluster_id=cut.cluster_id,
            topics=topic_positions(cut, self._contents),
            records=writer.records,
            blocks_file=file,
            blocks_bytes=writer.bytes,
            blocks_sha256=writer.sha256,
            upstream=upstream,
            upstream_logs=next_logs(self.recorded_logs, self._listed, self._truncated, highest_ever),
        )
        self.written = f"possibly the state {place.name}"
        place.commit(encode_head(following), file)
        self.written = f"the state {place.name}"
        self._set_details(head, following, sum(received.records for received in new.values()))

    def _previous_blocks(self) -> Iterator[tuple[Block, Received]]:
        """Yield the blocks of the state, without those of upstream topics that no longer exist."""
        place, head = self._place, self._head
        if place is None or head is None:
            return
        restarted = self._generations.restarted
        for block, received in read_blocks(place.blocks(head.blocks_file), head, place.name):
            if (block.topic, block.partition) not in restarted:
                yield block, received

    def _without_replaced(
        self, blocks: Iterable[tuple[Block, Received]], highest: dict[TopicPartition, int]
    ) -> Iterator[tuple[Block, Received]]:
        """Yield `blocks` without the offsets that a truncation has replaced, and store all highest offsets."""
        firsts = replaced_from(self._truncated)
        for block, received in _track_highest_offsets(blocks, highest):
            end = firsts.get((block.topic, block.partition))
            kept = received if block == FOREIGN or end is None else offsets_below(block, received, end)
            if kept is not None:
                yield block, kept

    def _set_details(self, before: StateHead | None, now: StateHead, new: int = 0) -> None:
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


def _track_highest_offsets(
    blocks: Iterable[tuple[Block, Received]], highest: dict[TopicPartition, int]
) -> Iterator[tuple[Block, Received]]:
    """Yield `blocks`, and store the highest offset of each source partition in `highest`."""
    for block, received in blocks:
        if block != FOREIGN and received.positions:
            key = block.topic, block.partition
            highest[key] = max(highest_offset(block, received), highest.get(key, 0))
        yield block, received
