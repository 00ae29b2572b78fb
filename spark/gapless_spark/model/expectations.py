"""Owns the offsets that are expected: ``topic:partition:first-last``, and inventories of the sending side.

Must not know what was received, nor how an inventory arrived.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_topic, unpadded_decimal
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.generations import Origin, RecreatedTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from gapless_api.inventory.form import Inventory, InventoryMetadata, PartitionOffsets


class Bounds(StrEnum):
    """Where an expectation comes from."""

    GIVEN = "given"
    """The settings; what is received beyond it is unexpected."""
    INVENTORY = "manifest"
    """An inventory, and perhaps the settings; what is received beyond it is older or newer than the inventory."""
    SEEN = "seen"
    """Nothing is configured: from the lowest to the highest offset received."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected offsets of one partition."""

    offsets: OffsetRanges
    bounds: Bounds = Bounds.GIVEN
    absent: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets without an event upstream, which are not missing whether they were received or not."""


Expectations = dict[TopicPartition, Expectation]
"""By topic and downstream partition."""


def parse_expectations(texts: Iterable[str], file: Path | None = None) -> Expectations:
    """Read `texts` and the lines of `file`; several for one partition add up.

    Raises:
        ConfigurationError: one is not ``topic:partition:first-last``, or the file cannot be read.
    """
    expected: dict[TopicPartition, OffsetRanges] = {}
    for text, origin in [(text, "") for text in texts] + (_read_lines(file) if file is not None else []):
        partition, offsets = _parse_expectation(text, origin)
        expected[partition] = expected.get(partition, OffsetRanges()) | offsets
    return {partition: Expectation(offsets) for partition, offsets in expected.items()}


def add_inventories(given: Expectations, inventories: NewestEntries, topics: Collection[str] = ()) -> Expectations:
    """Add the partitions of `inventories` to the `given` expectations.

    Args:
        given: stay expected, whatever an inventory lists.
        inventories: all of their partitions are expected, also those without events.
        topics: the topics of the inventories to use; empty for all.

    Raises:
        ConfigurationError: no inventory lists one of `topics`.
    """
    expected = dict(given)
    listed = set()
    for partition, entry in inventories.entries().items():
        listed.add(entry.topic)
        if not topics or entry.topic in topics:
            more = given[partition].offsets if partition in given else OffsetRanges()
            absent = entry.absent if entry.absent is not None else OffsetRanges()
            expected[partition] = Expectation(entry.events | more, Bounds.INVENTORY, absent - more)
    for topic in topics:
        if topic not in listed:
            raise ConfigurationError(
                f"No inventory lists the topic {topic} of expectTopics; correct the name, or run gapless inventory for "
                f"it. The inventories list {', '.join(sorted(listed)) or 'no topic'}."
            )
    return expected


@dataclass(frozen=True, slots=True)
class ShrunkPartition:
    """A partition whose end is lower in a later inventory, although the end of a log only rises."""

    topic: str
    partition: int
    earlier_id: str
    """The ID of the earlier inventory."""
    earlier_end: int
    later_id: str
    later_end: int


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
        return self.offsets.first if self.offsets.last is None else self.offsets.last + 1

    @property
    def reach(self) -> tuple[Any, ...]:
        """The sort key within one topic, whose first and last offsets only rise, whatever the clocks say."""
        return self.end, self.offsets.first, *self.age

    def shrunk_from(self, other: _Entry) -> ShrunkPartition | None:
        """Compare two entries of one upstream topic; ``None`` if the end of the later one is not lower."""
        earlier, later = sorted((self, other), key=lambda each: each.metadata.created)
        origins = {(each.metadata.cluster, each.metadata.isolation) for each in (self, other)}
        if len(origins) > 1 or earlier.metadata.created == later.metadata.created or earlier.end <= later.end:
            return None
        offsets = self.offsets
        return ShrunkPartition(
            offsets.topic, offsets.partition, earlier.metadata.id, earlier.end, later.metadata.id, later.end
        )


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
        self._shrunk: dict[TopicPartition, ShrunkPartition] = {}
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
            self._compare_ends(entry, known)
            of_topic[offsets.partition] = entry if known is None else _newer(entry, known)

    def _compare_ends(self, entry: _Entry, highest: _Entry | None) -> None:
        """Compare an entry with the one of the highest end, and with the one that was created last."""
        offsets = entry.offsets
        key = offsets.topic, offsets.topic_id, offsets.partition
        latest = self._latest.get(key)
        for known in (highest, latest):
            shrunk = entry.shrunk_from(known) if known is not None else None
            if shrunk is not None:
                self._shrunk[offsets.topic, offsets.partition] = shrunk
        if latest is None or entry.age > latest.age:
            self._latest[key] = entry

    @property
    def shrunk(self) -> list[ShrunkPartition]:
        """The partitions whose end fell from one inventory to a later one, so that the upstream log was truncated.

        Complete if inventories were added in the order of their creation; of others, only the extremes are compared.
        """
        return [self._shrunk[partition] for partition in sorted(self._shrunk)]

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
    older, newer = sorted((entry, other), key=lambda each: each.reach if is_one_topic else each.age)
    after, before = newer.offsets, older.offsets
    alike = (older.metadata.cluster, older.metadata.isolation) == (newer.metadata.cluster, newer.metadata.isolation)
    if not alike or after.last is None or before.last is None or before.last > after.last:
        return newer  # another cluster, or a recreated topic without topic IDs: absent offsets have no meaning here
    if before.absent is None:
        return newer
    absent = before.absent.clip(after.first, after.last) | (after.absent or OffsetRanges())
    return replace(newer, offsets=replace(after, absent=absent))


def _parse_expectation(text: str, origin: str) -> tuple[TopicPartition, OffsetRanges]:
    # From the right, because the name of a translated topic may contain any character.
    prefix, _, offsets_text = text.rpartition(":")
    topic, _, partition_text = prefix.rpartition(":")
    first_text, _, last_text = offsets_text.partition("-")
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    first, last = unpadded_decimal(first_text, MAX_OFFSET), unpadded_decimal(last_text, MAX_OFFSET)
    if not is_topic(topic) or partition is None or first is None or last is None:
        raise ConfigurationError(
            f"The expectation {text!r}{origin} is not topic:partition:first-last, for example transfer:0:0-999999."
        )
    if last < first:
        raise ConfigurationError(
            f"The expectation {text!r}{origin} ends before it begins; give the lower offset first (both are inclusive)."
        )
    return (topic, partition), OffsetRanges([(first, last)])


def _read_lines(file: Path) -> list[tuple[str, str]]:
    try:
        lines = read_small(file).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(
            f"The file {file} of expectFile cannot be read ({reason}); give a file with a line "
            f"topic:partition:first-last for each partition."
        ) from None
    return [
        (line.strip(), f" in {file}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
