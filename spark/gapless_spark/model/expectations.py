"""Owns what should have been received: ``topic:partition:first-last``, and what inventories of the other side say.

Must not know what was received, nor how an inventory came here.
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
from gapless_spark.model.generations import Origin, Replaced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from gapless_api.inventory.form import Inventory, InventoryMetadata, PartitionOffsets


class Bounds(StrEnum):
    """Where an expectation comes from."""

    GIVEN = "given"
    """Somebody said it; what is received beyond it is unexpected."""
    INVENTORY = "manifest"
    """From an inventory, and perhaps the settings; what is received beyond it is older or newer than the inventory."""
    SEEN = "seen"
    """Nobody said anything: from the lowest to the highest offset received."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The offsets of one partition that should be there."""

    offsets: OffsetRanges
    bounds: Bounds = Bounds.GIVEN
    absent: OffsetRanges = field(default_factory=OffsetRanges)
    """What is known to be no events, and so is not missing whether it was received or not."""


Expectations = dict[TopicPartition, Expectation]
"""By topic and downstream partition."""


def parse_expectations(texts: Iterable[str], file: Path | None = None) -> Expectations:
    """Read `texts` and the lines of `file`; several for one partition add up.

    Raises:
        ConfigurationError: one is not ``topic:partition:first-last``, or the file cannot be read.
    """
    expected: dict[TopicPartition, OffsetRanges] = {}
    for text, place in [(text, "") for text in texts] + (_lines(file) if file is not None else []):
        where, offsets = _parsed(text, place)
        expected[where] = expected.get(where, OffsetRanges()) | offsets
    return {where: Expectation(offsets) for where, offsets in expected.items()}


def with_inventories(given: Expectations, inventories: NewestEntries, topics: Collection[str] = ()) -> Expectations:
    """Add what `manifests` say to what was `given`.

    Args:
        given: stays expected, whatever an inventory says.
        inventories: every partition of theirs is expected, a silent one, too.
        topics: of the inventories, those that count; nothing for all.

    Raises:
        ConfigurationError: no inventory speaks of one of `topics`.
    """
    expected = dict(given)
    spoken_of = set()
    for place, entry in inventories.entries().items():
        spoken_of.add(entry.topic)
        if not topics or entry.topic in topics:
            more = given[place].offsets if place in given else OffsetRanges()
            absent = entry.absent if entry.absent is not None else OffsetRanges()
            expected[place] = Expectation(entry.events | more, Bounds.INVENTORY, absent - more)
    for topic in topics:
        if topic not in spoken_of:
            raise ConfigurationError(
                f"No inventory speaks of the topic {topic} of expectTopics; correct it, or have an inventory made that "
                f"does: there are {', '.join(sorted(spoken_of)) or 'none'}."
            )
    return expected


@dataclass(frozen=True, slots=True)
class _Said:
    entry: PartitionOffsets
    metadata: InventoryMetadata

    @property
    def age(self) -> tuple[Any, ...]:
        return self.metadata.created, self.metadata.id

    @property
    def reach(self) -> tuple[Any, ...]:
        """How far the partition had come: of one topic both ends only rise, whatever a clock says."""
        entry = self.entry
        return entry.first if entry.last is None else entry.last + 1, entry.first, *self.age


@dataclass(frozen=True, slots=True)
class _Generation:
    """What inventories say of a topic with one id."""

    topic: str
    topic_id: str | None
    said: dict[int, _Said]
    """By partition."""
    replaced: list[Replaced] = field(default_factory=list)
    undecided: list[Replaced] = field(default_factory=list)

    @property
    def created(self) -> datetime:
        """When the newest of its inventories was made."""
        return max(said.metadata.created for said in self.said.values())

    def has_replaced(self, other: _Generation) -> bool:
        """Whether this and an `other` that is not newer cannot both be there."""
        is_one_topic = self.topic == other.topic and None not in {self.topic_id, other.topic_id}
        return is_one_topic and not self.said.keys().isdisjoint(other.said)


class NewestEntries:
    """What the newest inventory says of each partition; inventories may come in any order.

    Offsets that an older one of the same topic knew to be absent stay so, for Kafka never uses an offset again. A topic
    that was recreated (by its id) has nothing in common with the one before: of the two only the newer one counts.
    """

    def __init__(self) -> None:
        self._said: dict[tuple[str, str | None], dict[int, _Said]] = {}
        """By topic and its id upstream, then by partition."""
        self._sources: dict[str, tuple[InventoryMetadata, str]] = {}
        self._conflicts: set[TopicPartition] = set()

    def add(self, inventory: Inventory, where: str) -> None:
        """Take what `inventory` says; `where` is what the report calls the place it was found in."""
        metadata = inventory.metadata
        self._sources[metadata.id] = metadata, where
        for entry in inventory.entries:
            of_topic = self._said.setdefault((entry.topic, entry.topic_id), {})
            said, known = _Said(entry, metadata), of_topic.get(entry.partition)
            if known is not None and known.metadata.cluster != metadata.cluster:
                self._conflicts.add((entry.topic, entry.partition))
            of_topic[entry.partition] = said if known is None else _newest(said, known)

    @property
    def newest_id(self) -> str:
        """The id of the newest inventory that counts; ids sort by time. Nothing when there is none."""
        return max((said.metadata.id for said in self._counting().values()), default="")

    @property
    def conflicts(self) -> list[TopicPartition]:
        """The partitions that inventories of different clusters speak of, which no healthy set of windows has."""
        return sorted(self._conflicts)

    @property
    def replaced(self) -> list[Replaced]:
        """The topics of which inventories with two ids speak of the same partitions."""
        return [change for generation in self._generations() for change in generation.replaced]

    @property
    def undecided(self) -> list[Replaced]:
        """Those of `replaced` of which nobody can tell the order: a time has whole seconds, and theirs are the same."""
        return [change for generation in self._generations() for change in generation.undecided]

    def entries(self) -> Mapping[TopicPartition, PartitionOffsets]:
        """What counts, by topic and partition."""
        return {place: said.entry for place, said in self._counting().items()}

    def origins(self) -> dict[TopicPartition, Origin]:
        """Where the events of each partition come from, as far as inventories say."""
        return {
            place: Origin(said.metadata.cluster, said.entry.topic_id)
            for place, said in self._counting().items()
            if said.entry.topic_id is not None
        }

    def members(self) -> list[dict[str, Any]]:
        """The inventories that count, for the report, oldest first."""
        counting = Counter(said.metadata.id for said in self._counting().values())
        return [
            {
                "id": metadata.id,
                "created": moment_text(metadata.created),
                "cluster": metadata.cluster,
                "from": where,
                "signed": metadata.signature is not None,
                "partitions": counting[metadata.id],
            }
            for _, (metadata, where) in sorted(self._sources.items())
            if metadata.id in counting
        ]

    def _counting(self) -> dict[TopicPartition, _Said]:
        counting: dict[TopicPartition, _Said] = {}
        for generation in self._generations():
            for partition, said in generation.said.items():
                place = generation.topic, partition
                known = counting.get(place)
                # One without an id may be of the same topic, or not: nobody can tell, as with all of version 1.
                counting[place] = said if known is None else _newest(said, known)
        return counting

    def _generations(self) -> list[_Generation]:
        """The generations of topics that count, each with those that it has replaced."""
        given = [_Generation(topic, topic_id, said) for (topic, topic_id), said in self._said.items()]
        found: list[_Generation] = []
        for generation in sorted(given, key=lambda one: max(said.age for said in one.said.values()), reverse=True):
            newer = next((one for one in found if one.has_replaced(generation)), None)
            if newer is None:
                found.append(generation)
            else:
                change = Replaced(generation.topic, str(generation.topic_id), str(newer.topic_id))
                newer.replaced.append(change)
                if generation.created == newer.created:
                    newer.undecided.append(change)
        return found


def _newest(one: _Said, other: _Said) -> _Said:
    is_one_topic = one.entry.topic_id is not None and one.entry.topic_id == other.entry.topic_id
    older, newer = sorted((one, other), key=lambda said: said.reach if is_one_topic else said.age)
    entry, before = newer.entry, older.entry
    alike = (older.metadata.cluster, older.metadata.isolation) == (newer.metadata.cluster, newer.metadata.isolation)
    if not alike or entry.last is None or before.last is None or before.last > entry.last:
        return newer  # Another cluster, or a recreated topic without ids: what was absent there says nothing here.
    if before.absent is None:
        return newer
    absent = before.absent.clip(entry.first, entry.last) | (entry.absent or OffsetRanges())
    return replace(newer, entry=replace(entry, absent=absent))


def _parsed(text: str, place: str) -> tuple[TopicPartition, OffsetRanges]:
    # From the right: topics are translated on the way and may hold anything.
    begin, _, offsets_text = text.rpartition(":")
    topic, _, partition_text = begin.rpartition(":")
    first_text, _, last_text = offsets_text.partition("-")
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    first, last = unpadded_decimal(first_text, MAX_OFFSET), unpadded_decimal(last_text, MAX_OFFSET)
    if not is_topic(topic) or partition is None or first is None or last is None:
        raise ConfigurationError(
            f"The expectation {text!r}{place} is not topic:partition:first-last; write for example transfer:0:0-999999."
        )
    if last < first:
        raise ConfigurationError(
            f"The expectation {text!r}{place} ends before it begins; both offsets are inclusive, the lower comes first."
        )
    return (topic, partition), OffsetRanges([(first, last)])


def _lines(file: Path) -> list[tuple[str, str]]:
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
