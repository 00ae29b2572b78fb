"""The log of one partition as one inventory lists it, and whether another inventory shows that it was truncated.

Must not know how inventories are chosen, what was received, or where a state is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from gapless_api.inventory.form import InventoryMetadata, Isolation, PartitionOffsets


class Taken(NamedTuple):
    """Which inventory lists a log."""

    id: str
    created: datetime
    cluster: str
    """Kafka's ID of the upstream cluster."""
    isolation: Isolation

    @classmethod
    def of(cls, metadata: InventoryMetadata) -> Self:
        """Return what `metadata` says."""
        return cls(metadata.id, metadata.created, metadata.cluster, metadata.isolation)


@dataclass(frozen=True, slots=True)
class TruncatedPartition:
    """A partition whose log was truncated between two inventories of one topic ID.

    The epochs of both show where it was cut. Without them only a lower end is noticed, although the end of a log only
    rises.
    """

    topic: str
    partition: int
    earlier_id: str
    """The ID of the earlier inventory."""
    earlier_end: int
    later_id: str
    later_end: int
    first_difference: int
    """The first offset that was replaced or lost."""
    by_epochs: bool
    """Whether the epochs prove it."""
    later_epoch: int | None
    """The leader epoch of the later log at this offset, or of its end; ``None`` without epochs."""

    @property
    def mark(self) -> tuple[int, int | str]:
        """What a later audit recognises this truncation by, also if another inventory shows it."""
        return self.first_difference, self.later_id if self.later_epoch is None else self.later_epoch


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A partition of an inventory."""

    offsets: PartitionOffsets
    taken: Taken

    @property
    def age(self) -> tuple[Any, ...]:
        """The sort key by the creation of the inventory."""
        return self.taken.created, self.taken.id

    @property
    def end(self) -> int:
        """The end of the partition, exclusive."""
        return self.offsets.end

    @property
    def reach(self) -> tuple[Any, ...]:
        """The sort key within one topic, whose first and last offsets only rise, whatever the clocks say."""
        return self.end, self.offsets.first, *self.age

    def truncation(self, other: ListedLog) -> TruncatedPartition | None:
        """Compare two entries of one upstream topic; ``None`` if nothing shows that its log was truncated."""
        if self.taken.cluster != other.taken.cluster:
            return None
        same_ends = self.taken.isolation == other.taken.isolation
        earlier, later = in_order(self, other)
        by_epochs = None not in {earlier.offsets.last_epoch, later.offsets.last_epoch}
        if by_epochs:
            difference = later.offsets.first_difference(earlier.offsets, same_ends=same_ends)
        else:
            earlier, later = sorted((self, other), key=lambda each: each.taken.created)
            is_shorter = earlier.taken.created < later.taken.created and later.end < earlier.end
            difference = later.end if same_ends and is_shorter else None
        if difference is None:
            return None
        where = self.offsets.topic, self.offsets.partition
        ids = earlier.taken.id, earlier.end, later.taken.id, later.end
        epoch = later.offsets.epoch_at(difference) if by_epochs else None
        return TruncatedPartition(*where, *ids, difference, by_epochs, epoch)


def in_order(one: ListedLog, other: ListedLog) -> tuple[ListedLog, ListedLog]:
    """Return the older and the newer of two entries of one upstream topic, whatever the clocks say."""
    epochs = {one.offsets.last_epoch, other.offsets.last_epoch}
    if None not in epochs and len(epochs) > 1:  # a log that was truncated has a new leader, and may be shorter
        return (one, other) if (one.offsets.last_epoch or 0) < (other.offsets.last_epoch or 0) else (other, one)
    return (one, other) if one.reach < other.reach else (other, one)


def newer_log(entry: ListedLog, other: ListedLog) -> ListedLog:
    """Return the newer of two entries, with the absent offsets of both where they are of the same topic."""
    is_one_topic = entry.offsets.topic_id is not None and entry.offsets.topic_id == other.offsets.topic_id
    older, newer = in_order(entry, other) if is_one_topic else sorted((entry, other), key=lambda each: each.age)
    after, before = newer.offsets, older.offsets
    alike = (older.taken.cluster, older.taken.isolation) == (newer.taken.cluster, newer.taken.isolation)
    if not alike or after.last is None or before.last is None or before.last > after.last:
        return newer  # another cluster, or a recreated topic without topic IDs: absent offsets have no meaning here
    if before.absent is None:
        return newer
    difference = after.first_difference(before)
    last = after.last if difference is None else difference - 1
    kept = before.absent.clip(after.first, last) if after.first <= last else OffsetRanges()
    absent = kept | (after.absent or OffsetRanges())
    return replace(newer, offsets=replace(after, absent=absent))
