"""What an audit cannot know because Kafka deleted records before an audit read them: the frontier of a partition.

Must not know how records are read or where a state is stored. The offsets of the live stream rise, and events that are
sent again are older. So the first records that Kafka has kept show how far the stream had come when the deleted ones
were written: an event above their highest offset came later, and one below it may have been deleted.

This needs a live event among the first records. If there are too few of them, or none is above what had been received
before the deletion, they may all come from a resend: then everything that was not received is unknown.

The receiver writes an event to the partition whose number is in its key. If the first records show that another program
chose the partitions, a deleted record may have belonged to any source partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition, parse_event_id
from gapless_api.wire.audit_state import Contents, FirstKept, SourceOffset

FIRST_RECORDS = 1000
"""How many of the first records that Kafka has kept of a partition are read; fewer do not show a frontier."""
SAMPLE_RECORDS = 50
"""The same for partitions without unread deletions: they only show which events a topic contains."""
NOTHING_EXPIRED = -1
"""In place of an offset: no deleted record can have belonged to a source partition."""


def start_first_kept(partition: int, keys: Sequence[bytes | None], before: FirstKept | None) -> FirstKept:
    """Evaluate the keys of the first records kept of `partition`; `before` is the result of earlier deletions."""
    kept = extend_first_kept(FirstKept(partition=partition, records=0, highest=()), keys)
    if before is None:
        return kept
    earlier, now = _by_partition(before.highest), _by_partition(kept.highest)
    raised = {source: max(offset, earlier.get(source, offset)) for source, offset in now.items()}
    return replace(kept, highest=_to_source_offsets(raised))


def extend_first_kept(kept: FirstKept, keys: Sequence[bytes | None]) -> FirstKept:
    """Add the keys of further records."""
    highest = _by_partition(kept.highest)
    for source, offset in _events(keys):
        if highest.get(source) != NOTHING_EXPIRED:
            highest[source] = max(highest.get(source, offset), offset)
    return replace(kept, records=kept.records + len(keys), highest=_to_source_offsets(highest))


def add_sources(contents: Contents, partition: int, keys: Sequence[bytes | None]) -> Contents:
    """Add the source topics of `keys`, which were read from `partition`."""
    sources = {source for source, _ in _events(keys)}
    return replace(
        contents,
        sources=tuple(sorted({*contents.sources, *(topic for topic, _ in sources)})),
        scattered=contents.scattered or any(number != partition for _, number in sources),
    )


def restart_partitions(contents: Contents, partitions: Iterable[TopicPartition]) -> Contents:
    """Mark source partitions that began after all unread deletions."""
    later = dict.fromkeys(partitions, NOTHING_EXPIRED)
    if not later:
        return contents
    return replace(
        contents,
        expired=tuple(
            replace(
                kept,
                highest=_to_source_offsets(_by_partition(kept.highest) | later),
                received_before=_to_source_offsets(
                    {
                        source: offset
                        for source, offset in _by_partition(kept.received_before).items()
                        if source not in later
                    }
                ),
            )
            for kept in contents.expired
        ),
    )


def update_from_received(
    contents: Contents,
    newly_expired: Iterable[int],
    before: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, int],
) -> Contents:
    """Update `contents` with the highest offsets that were received.

    Args:
        contents: with the first records evaluated.
        newly_expired: partitions with records that were deleted unread since the last audit.
        before: the highest offset of each source partition that earlier audits have read.
        now: the same, including what this audit has read.
    """
    new = frozenset(newly_expired)
    expired = []
    for kept in contents.expired:
        if kept.partition in new:
            near = {
                source: offset for source, offset in before.items() if contents.scattered or source[1] == kept.partition
            }
            kept = replace(kept, received_before=_to_source_offsets(near))  # noqa: PLW2901
        if kept.records >= FIRST_RECORDS:
            highest, known = _by_partition(kept.highest), _by_partition(kept.received_before)
            # Without a live event among the first records, one has been read once an offset rises above all of them.
            raised = {
                source: max(offset, now.get(source, offset))
                for source, offset in highest.items()
                if NOTHING_EXPIRED < offset <= known.get(source, NOTHING_EXPIRED)
            }
            kept = replace(kept, highest=_to_source_offsets(highest | raised))  # noqa: PLW2901
        expired.append(kept)
    return replace(contents, expired=tuple(expired))


class Frontiers:
    """The highest offset of each source partition that may have been received in records that were not read."""

    def __init__(
        self, topics: Mapping[str, tuple[int, Contents]], held_back: Mapping[str, frozenset[int]] | None = None
    ) -> None:
        """Take what is known of each topic that is audited.

        Args:
            topics: the number of partitions and the contents.
            held_back: the partitions with records behind an open transaction.
        """
        self._topics = topics
        self._held_back = held_back or {}
        self._by_partition = {
            name: {kept.partition: _frontiers_of(kept) for kept in contents.expired}
            for name, (_, contents) in topics.items()
        }

    def of(self, source: TopicPartition) -> int:
        """Return the highest unknown offset; `NOTHING_EXPIRED` for none, `MAX_OFFSET` for all of them."""
        if self.is_held_back(source):
            return MAX_OFFSET
        highest = NOTHING_EXPIRED
        for name, number in self._partitions_of(source, self._by_partition):
            highest = max(highest, self._by_partition[name][number].get(source, MAX_OFFSET))
        return highest

    def is_held_back(self, source: TopicPartition) -> bool:
        """Whether records behind an open transaction may include events of a source partition."""
        return any(True for _ in self._partitions_of(source, self._held_back))

    def _partitions_of(self, source: TopicPartition, among: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
        """Yield those of the partitions `among` that may contain events of a source partition."""
        source_topic, partition = source
        # A receiver writes each source topic to one topic: to those where it was seen, or otherwise to any of them.
        seen_in = {name for name, (_, contents) in self._topics.items() if source_topic in contents.sources}
        for name in seen_in or self._topics:
            count, contents = self._topics[name]
            only_same_number = not contents.scattered and partition < count
            for number in among.get(name, ()):
                if not only_same_number or number == partition:
                    yield name, number


def _frontiers_of(kept: FirstKept) -> dict[TopicPartition, int]:
    """Return the frontiers by source partition; those for which no live event was certainly seen are left out."""
    before, is_enough = _by_partition(kept.received_before), kept.records >= FIRST_RECORDS
    return {
        source: offset
        for source, offset in _by_partition(kept.highest).items()
        if offset == NOTHING_EXPIRED or (is_enough and offset > before.get(source, NOTHING_EXPIRED))
    }


def _events(keys: Sequence[bytes | None]) -> Iterable[tuple[TopicPartition, int]]:
    for key in keys:
        try:
            event = parse_event_id(key.decode("utf-8")) if key is not None else None
        except UnicodeDecodeError:
            event = None
        if event is not None:
            yield (event.topic, event.partition), event.offset


def _by_partition(offsets: Iterable[SourceOffset]) -> dict[TopicPartition, int]:
    return {
        (source.topic, source.partition): NOTHING_EXPIRED if source.offset is None else source.offset
        for source in offsets
    }


def _to_source_offsets(offsets: Mapping[TopicPartition, int]) -> tuple[SourceOffset, ...]:
    return tuple(
        SourceOffset(*source, None if offset == NOTHING_EXPIRED else offset)
        for source, offset in sorted(offsets.items())
    )
