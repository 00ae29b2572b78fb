"""Owns which entry of several inventories counts for a partition, and whether its log was truncated in between.

Must not know what was received, nor how an inventory arrived.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.generations import Origin, RecreatedTopic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gapless_api.inventory.form import Inventory, InventoryMetadata, PartitionOffsets
    from gapless_api.offsets.ids import TopicPartition


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


@dataclass(frozen=True, slots=True)
class _Entry:
    """A partition of an inventory."""

    offsets: PartitionOffsets
    metadata: InventoryMetadata

    @property
    def age(self) -> tuple[Any, ...]:
        return self.metadata.created, self.metadata.id

    @property
    def end(self) -> int:
        """The end of the partition, exclusive."""
        return self.offsets.end

    @property
    def reach(self) -> tuple[Any, ...]:
        """The sort key within one topic, whose first and last offsets only rise, whatever the clocks say."""
        return self.end, self.offsets.first, *self.age

    def truncation(self, other: _Entry) -> TruncatedPartition | None:
        """Compare two entries of one upstream topic; ``None`` if nothing shows that its log was truncated."""
        if self.metadata.cluster != other.metadata.cluster:
            return None
        same_ends = self.metadata.isolation == other.metadata.isolation
        earlier, later = _in_order(self, other)
        by_epochs = None not in {earlier.offsets.last_epoch, later.offsets.last_epoch}
        if by_epochs:
            difference = later.offsets.first_difference(earlier.offsets, same_ends=same_ends)
        else:
            earlier, later = sorted((self, other), key=lambda each: each.metadata.created)
            is_shorter = earlier.metadata.created < later.metadata.created and later.end < earlier.end
            difference = later.end if same_ends and is_shorter else None
        if difference is None:
            return None
        where = self.offsets.topic, self.offsets.partition
        ids = earlier.metadata.id, earlier.end, later.metadata.id, later.end
        return TruncatedPartition(*where, *ids, difference, by_epochs)


def _in_order(one: _Entry, other: _Entry) -> tuple[_Entry, _Entry]:
    """Return the older and the newer of two entries of one upstream topic, whatever the clocks say."""
    epochs = {one.offsets.last_epoch, other.offsets.last_epoch}
    if None not in epochs and len(epochs) > 1:  # a log that was truncated has a new leader, and may be shorter
        return (one, other) if (one.offsets.last_epoch or 0) < (other.offsets.last_epoch or 0) else (other, one)
    return (one, other) if one.reach < other.reach else (other, one)


@dataclass(frozen=True, slots=True)
class _Generation:
    """The newest entries of a topic with one topic ID."""

    topic: str
    topic_id: str | None
    entries: dict[int, _Entry]
    """By partition."""
    replaced: list[RecreatedTopic] = field(default_factory=list)
    undecided: list[RecreatedTopic] = field(default_factory=list)

    @property
    def created(self) -> datetime:
        """When the newest of its inventories was created."""
        return max(entry.metadata.created for entry in self.entries.values())

    def has_replaced(self, other: _Generation) -> bool:
        """Whether this generation and an `other` that is not newer cannot exist at the same time."""
        is_one_topic = self.topic == other.topic and None not in {self.topic_id, other.topic_id}
        return is_one_topic and not self.entries.keys().isdisjoint(other.entries)


class NewestEntries:
    """The newest entry of each partition; inventories may be added in any order.

    Offsets that were absent in an older inventory of the same topic stay absent, because Kafka never reuses an offset.
    A recreated topic (another topic ID) has nothing in common with its predecessor: only the newer one is used.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str | None], dict[int, _Entry]] = {}
        """By topic and its upstream ID, then by partition."""
        self._latest: dict[tuple[str, str | None, int], _Entry] = {}
        """The entries that were created last, by topic, its upstream ID, and partition."""
        self._truncated: dict[tuple[str, str | None, int], TruncatedPartition] = {}
        self._sources: dict[str, tuple[InventoryMetadata, str]] = {}
        self._conflicts: set[TopicPartition] = set()

    def add(self, inventory: Inventory, where: str) -> None:
        """Add `inventory`; the report names `where` it was found."""
        metadata = inventory.metadata
        self._sources[metadata.id] = metadata, where
        for offsets in inventory.entries:
            of_topic = self._entries.setdefault((offsets.topic, offsets.topic_id), {})
            entry, known = _Entry(offsets, metadata), of_topic.get(offsets.partition)
            if known is not None and known.metadata.cluster != metadata.cluster:
                self._conflicts.add((offsets.topic, offsets.partition))
            self._compare_logs(entry, known)
            of_topic[offsets.partition] = entry if known is None else _newer(entry, known)

    def _compare_logs(self, entry: _Entry, newest: _Entry | None) -> None:
        """Compare an entry with the newest one, and with the one that was created last."""
        offsets = entry.offsets
        key = offsets.topic, offsets.topic_id, offsets.partition
        latest = self._latest.get(key)
        for known in (newest, latest):
            found = entry.truncation(known) if known is not None else None
            before = self._truncated.get(key)
            if found is not None and (before is None or found.first_difference < before.first_difference):
                self._truncated[key] = found
        if latest is None or entry.age > latest.age:
            self._latest[key] = entry

    @property
    def truncated(self) -> list[TruncatedPartition]:
        """The partitions whose log was truncated between inventories of the topic that is used.

        Complete if inventories were added in the order of their creation; of others, only the extremes are compared.
        """
        used = self._used()
        return [
            found
            for (topic, topic_id, partition), found in sorted(self._truncated.items(), key=lambda each: each[0][::2])
            if (topic, partition) in used and used[topic, partition].offsets.topic_id == topic_id
        ]

    @property
    def newest_id(self) -> str:
        """The ID of the newest inventory that is used; IDs sort by time. Empty without inventories."""
        return max((entry.metadata.id for entry in self._used().values()), default="")

    @property
    def conflicts(self) -> list[TopicPartition]:
        """The partitions listed by inventories of different clusters, which means that partition windows overlap."""
        return sorted(self._conflicts)

    @property
    def replaced(self) -> list[RecreatedTopic]:
        """The topics for which inventories with two topic IDs list the same partitions."""
        return [change for generation in self._generations() for change in generation.replaced]

    @property
    def undecided(self) -> list[RecreatedTopic]:
        """Those of `replaced` whose order is unknown, because both inventories were created in the same second."""
        return [change for generation in self._generations() for change in generation.undecided]

    def entries(self) -> Mapping[TopicPartition, PartitionOffsets]:
        """Return the entries that are used, by topic and partition."""
        return {partition: entry.offsets for partition, entry in self._used().items()}

    def origins(self) -> dict[TopicPartition, Origin]:
        """Return the upstream topic of each partition, as far as inventories contain topic IDs."""
        return {
            partition: Origin(entry.metadata.cluster, entry.offsets.topic_id)
            for partition, entry in self._used().items()
            if entry.offsets.topic_id is not None
        }

    def sources(self) -> list[dict[str, Any]]:
        """Return the inventories that are used, for the report, oldest first."""
        partitions = Counter(entry.metadata.id for entry in self._used().values())
        return [
            {
                "id": metadata.id,
                "created": moment_text(metadata.created),
                "cluster": metadata.cluster,
                "from": where,
                "signed": metadata.signature is not None,
                "partitions": partitions[metadata.id],
            }
            for _, (metadata, where) in sorted(self._sources.items())
            if metadata.id in partitions
        ]

    def _used(self) -> dict[TopicPartition, _Entry]:
        used: dict[TopicPartition, _Entry] = {}
        for generation in self._generations():
            for partition, entry in generation.entries.items():
                key = generation.topic, partition
                known = used.get(key)
                # Without a topic ID, as in all inventories of version 1, it may be the same topic or a recreated one.
                used[key] = entry if known is None else _newer(entry, known)
        return used

    def _generations(self) -> list[_Generation]:
        """Return the current generations of topics, each with those that it has replaced."""
        given = [_Generation(topic, topic_id, entries) for (topic, topic_id), entries in self._entries.items()]
        given.sort(key=lambda generation: max(entry.age for entry in generation.entries.values()), reverse=True)
        current: list[_Generation] = []
        for generation in given:
            newer = next((other for other in current if other.has_replaced(generation)), None)
            if newer is None:
                current.append(generation)
            else:
                change = RecreatedTopic(generation.topic, str(generation.topic_id), str(newer.topic_id))
                newer.replaced.append(change)
                if generation.created == newer.created:
                    newer.undecided.append(change)
        return current


def _newer(entry: _Entry, other: _Entry) -> _Entry:
    """Return the newer of two entries, with the absent offsets of both where they are of the same topic."""
    is_one_topic = entry.offsets.topic_id is not None and entry.offsets.topic_id == other.offsets.topic_id
    older, newer = _in_order(entry, other) if is_one_topic else sorted((entry, other), key=lambda each: each.age)
    after, before = newer.offsets, older.offsets
    alike = (older.metadata.cluster, older.metadata.isolation) == (newer.metadata.cluster, newer.metadata.isolation)
    if not alike or after.last is None or before.last is None or before.last > after.last:
        return newer  # another cluster, or a recreated topic without topic IDs: absent offsets have no meaning here
    if before.absent is None:
        return newer
    difference = after.first_difference(before)
    last = after.last if difference is None else difference - 1
    kept = before.absent.clip(after.first, last) if after.first <= last else OffsetRanges()
    absent = kept | (after.absent or OffsetRanges())
    return replace(newer, offsets=replace(after, absent=absent))
