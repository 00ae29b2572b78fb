"""Owns what it means that Kafka deleted records before an audit read them: up to where nobody knows what was received.

Must not know how records are read or where a state is kept. The live stream of a source partition rises, and what is
sent again is older than it. So the first records that Kafka has kept show how far the stream had come when the deleted
ones were there: an event above their highest offset came later, and one below it may have been among those deleted.

The receiver writes an event to the partition whose number is in the event's key. Where the first records show that
somebody else chose the partitions, a deleted record may have been of any source partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from gapless_api.ids import MAX_OFFSET, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_spark.event_keys import Place

FIRST_KEPT = 1000
"""So many of the first records of a partition that Kafka has kept are looked at."""
OF_COMPLETE_PARTITIONS = 50
"""The same for partitions of which nothing was deleted unread: they show only which events a topic holds."""
NOTHING_EXPIRED = -1
"""Instead of an offset: no deleted record can have been of a source partition."""


class FirstKept(BaseModel):
    """The first records that Kafka has kept of a partition of which others were deleted before an audit read them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    partition: NonNegativeInt
    """Of the topic that is audited."""
    records: NonNegativeInt
    """How many were looked at; fewer than `FIRST_KEPT` where no more had come yet."""
    highest: tuple[tuple[str, NonNegativeInt, int], ...]
    """Topic and partition of each source that they were of, and the highest offset; `NOTHING_EXPIRED` for a source
    that began after the deleted ones."""

    def with_more(self, keys: Sequence[bytes | None]) -> FirstKept:
        """The same with the keys of further records."""
        found = {(topic, partition): offset for topic, partition, offset in self.highest}
        for place, offset in _events(keys):
            found[place] = max(found.get(place, offset), offset)
        return self.model_copy(update={"records": self.records + len(keys), "highest": _listed(found)})

    def raised_to(self, earlier: FirstKept) -> FirstKept:
        """The same after records of this partition were deleted unread a second time."""
        found = {(topic, partition): offset for topic, partition, offset in self.highest}
        for topic, partition, offset in earlier.highest:
            if (topic, partition) in found:
                found[topic, partition] = max(found[topic, partition], offset)
        return self.model_copy(update={"highest": _listed(found)})

    def begun_by(self, places: Iterable[Place]) -> FirstKept:
        """The same where `places` are source partitions that began after the deleted records."""
        found = {(topic, partition): offset for topic, partition, offset in self.highest}
        return self.model_copy(update={"highest": _listed(found | dict.fromkeys(places, NOTHING_EXPIRED))})


class Contents(BaseModel):
    """What a topic that is audited holds, as far as its first records show, and where some were deleted unread."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sources: tuple[str, ...] = ()
    """Topics of the events in it."""
    scattered: bool = False
    """Whether events stand in other partitions than those that their keys name."""
    expired: tuple[FirstKept, ...] = ()
    """The partitions of which records were deleted before an audit read them."""

    def begun_by(self, places: Iterable[Place]) -> Contents:
        """The same where `places` are source partitions that began after all records that were deleted unread."""
        some = tuple(places)
        return self.model_copy(update={"expired": tuple(kept.begun_by(some) for kept in self.expired)})

    def with_keys(self, partition: int, keys: Sequence[bytes | None]) -> Contents:
        """The same after `keys` were seen in `partition`."""
        places = {place for place, _ in _events(keys)}
        return self.model_copy(
            update={
                "sources": tuple(sorted({*self.sources, *(topic for topic, _ in places)})),
                "scattered": self.scattered or any(number != partition for _, number in places),
            }
        )


class Frontiers:
    """Up to which offset nobody can tell of a source partition what was received and then deleted."""

    def __init__(self, topics: Mapping[str, tuple[int, Contents]]) -> None:
        """Take what is known of each topic that is audited: how many partitions it has, and its contents."""
        self._topics = topics
        self._first_kept = {
            name: {
                kept.partition: {(topic, partition): offset for topic, partition, offset in kept.highest}
                for kept in contents.expired
            }
            for name, (_, contents) in topics.items()
        }

    def of(self, place: Place) -> int:
        """The highest offset of which nobody can tell; `NOTHING_EXPIRED` for none, `MAX_OFFSET` for all of them."""
        topic, partition = place
        # A receiver gives each source topic one topic: it is in those where it was seen, or nobody knows where.
        seen_in = {name for name, (_, contents) in self._topics.items() if topic in contents.sources}
        highest = NOTHING_EXPIRED
        for name in seen_in or self._topics:
            count, contents = self._topics[name]
            its_own_only = not contents.scattered and partition < count
            for number, sources in self._first_kept[name].items():
                if not its_own_only or number == partition:
                    highest = max(highest, sources.get(place, MAX_OFFSET))
        return highest


def _events(keys: Sequence[bytes | None]) -> Iterable[tuple[Place, int]]:
    for key in keys:
        try:
            event = parse_event_id(key.decode("utf-8")) if key is not None else None
        except UnicodeDecodeError:
            event = None
        if event is not None:
            yield (event.topic, event.partition), event.offset


def _listed(found: Mapping[Place, int]) -> tuple[tuple[str, int, int], ...]:
    return tuple((*place, offset) for place, offset in sorted(found.items()))
