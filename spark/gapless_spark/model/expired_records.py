"""Owns what it means that Kafka deleted records before an audit read them: up to where nobody knows what was received.

Must not know how records are read or where a state is kept. The live stream of a source partition rises, and what is
sent again is older than it. So the first records that Kafka has kept show how far the stream had come when the deleted
ones were there: an event above their highest offset came later, and one below it may have been among those deleted.

This needs a live event among them. Where they are too few, or show nothing above what had been received before the
deletion, they may all be of a resend: then everything that was not received is unknown.

The receiver writes an event to the partition whose number is in the event's key. Where the first records show that
somebody else chose the partitions, a deleted record may have been of any source partition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition, parse_event_id
from gapless_api.wire.audit_state import Contents, FirstKept, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


FIRST_KEPT = 1000
"""So many of the first records of a partition that Kafka has kept are looked at; fewer show no frontier."""
OF_COMPLETE_PARTITIONS = 50
"""The same for partitions of which nothing was deleted unread: they show only which events a topic holds."""
NOTHING_EXPIRED = -1
"""Instead of an offset: no deleted record can have been of a source partition."""


def begun(partition: int, keys: Sequence[bytes | None], before: FirstKept | None) -> FirstKept:
    """What `keys` show, the first that were kept of `partition`; `before` is what was known of earlier deletions."""
    found = with_more(FirstKept(partition=partition, records=0, highest=()), keys)
    if before is None:
        return found
    earlier, now = _offsets(before.highest), _offsets(found.highest)
    raised = {place: max(offset, earlier.get(place, offset)) for place, offset in now.items()}
    return replace(found, highest=_listed(raised))


def with_more(kept: FirstKept, keys: Sequence[bytes | None]) -> FirstKept:
    """The same with the keys of further records."""
    found = _offsets(kept.highest)
    for place, offset in _events(keys):
        if found.get(place) != NOTHING_EXPIRED:
            found[place] = max(found.get(place, offset), offset)
    return replace(kept, records=kept.records + len(keys), highest=_listed(found))


def with_keys(contents: Contents, partition: int, keys: Sequence[bytes | None]) -> Contents:
    """The same after `keys` were seen in `partition`."""
    places = {place for place, _ in _events(keys)}
    return replace(
        contents,
        sources=tuple(sorted({*contents.sources, *(topic for topic, _ in places)})),
        scattered=contents.scattered or any(number != partition for _, number in places),
    )


def restart(contents: Contents, places: Iterable[TopicPartition]) -> Contents:
    """The same where `places` are source partitions that began after all records that were deleted unread."""
    later = dict.fromkeys(places, NOTHING_EXPIRED)
    if not later:
        return contents
    return replace(
        contents,
        expired=tuple(
            replace(
                kept,
                highest=_listed(_offsets(kept.highest) | later),
                received_before=_listed(
                    {place: offset for place, offset in _offsets(kept.received_before).items() if place not in later}
                ),
            )
            for kept in contents.expired
        ),
    )


def compared_with_received(
    contents: Contents,
    newly_expired: Iterable[int],
    before: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, int],
) -> Contents:
    """The same after it is known what was received.

    Args:
        contents: with the first records looked at.
        newly_expired: partitions of which records were deleted unread since the last audit.
        before: the highest offset of each source partition that earlier audits have read.
        now: the same with what this audit has read.
    """
    new = frozenset(newly_expired)
    expired = []
    for kept in contents.expired:
        if kept.partition in new:
            near = {
                place: offset for place, offset in before.items() if contents.scattered or place[1] == kept.partition
            }
            kept = replace(kept, received_before=_listed(near))  # noqa: PLW2901
        if kept.records >= FIRST_KEPT:
            found, known = _offsets(kept.highest), _offsets(kept.received_before)
            # Without a live event among the first, one is among all that was read when something rises above the rest.
            raised = {
                place: max(offset, now.get(place, offset))
                for place, offset in found.items()
                if NOTHING_EXPIRED < offset <= known.get(place, NOTHING_EXPIRED)
            }
            kept = replace(kept, highest=_listed(found | raised))  # noqa: PLW2901
        expired.append(kept)
    return replace(contents, expired=tuple(expired))


class Frontiers:
    """Up to which offset nobody can tell of a source partition what was received and then deleted."""

    def __init__(self, topics: Mapping[str, tuple[int, Contents]]) -> None:
        """Take what is known of each topic that is audited: how many partitions it has, and its contents."""
        self._topics = topics
        self._by_partition = {
            name: {kept.partition: _frontiers(kept) for kept in contents.expired}
            for name, (_, contents) in topics.items()
        }

    def of(self, place: TopicPartition) -> int:
        """The highest offset of which nobody can tell; `NOTHING_EXPIRED` for none, `MAX_OFFSET` for all of them."""
        topic, partition = place
        # A receiver gives each source topic one topic: it is in those where it was seen, or nobody knows where.
        seen_in = {name for name, (_, contents) in self._topics.items() if topic in contents.sources}
        highest = NOTHING_EXPIRED
        for name in seen_in or self._topics:
            count, contents = self._topics[name]
            its_own_only = not contents.scattered and partition < count
            for number, sources in self._by_partition[name].items():
                if not its_own_only or number == partition:
                    highest = max(highest, sources.get(place, MAX_OFFSET))
        return highest


def _frontiers(kept: FirstKept) -> dict[TopicPartition, int]:
    """By source partition; those that are not named have none, like those of which no live event was surely seen."""
    before, is_enough = _offsets(kept.received_before), kept.records >= FIRST_KEPT
    return {
        place: offset
        for place, offset in _offsets(kept.highest).items()
        if offset == NOTHING_EXPIRED or (is_enough and offset > before.get(place, NOTHING_EXPIRED))
    }


def _events(keys: Sequence[bytes | None]) -> Iterable[tuple[TopicPartition, int]]:
    for key in keys:
        try:
            event = parse_event_id(key.decode("utf-8")) if key is not None else None
        except UnicodeDecodeError:
            event = None
        if event is not None:
            yield (event.topic, event.partition), event.offset


def _offsets(listed: Iterable[SourceOffset]) -> dict[TopicPartition, int]:
    return {(one.topic, one.partition): NOTHING_EXPIRED if one.offset is None else one.offset for one in listed}


def _listed(found: Mapping[TopicPartition, int]) -> tuple[SourceOffset, ...]:
    return tuple(
        SourceOffset(*place, None if offset == NOTHING_EXPIRED else offset) for place, offset in sorted(found.items())
    )
