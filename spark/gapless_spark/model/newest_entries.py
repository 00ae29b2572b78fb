"""Which entry of several inventories counts for a partition, and whether its log was truncated in between.

Must not know what was received, nor how an inventory arrived.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import moment_text
from gapless_spark.model.generations import Origin, RecreatedTopic
from gapless_spark.model.listed_logs import ListedLog, Taken, TruncatedPartition, newer_log

if TYPE_CHECKING:
    from gapless_api.inventory.form import Inventory, InventoryMetadata, PartitionOffsets
    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.upstream_logs import RecordedLog

_Key = tuple[str, str | None, int]
"""Topic, its upstream ID, and partition."""


@dataclass(frozen=True, slots=True)
class _Generation:
    """The newest entries of a topic with one topic ID."""

    topic: str
    topic_id: str | None
    entries: dict[int, ListedLog]
    """By partition."""
    replaced: list[RecreatedTopic] = field(default_factory=list)
    undecided: list[RecreatedTopic] = field(default_factory=list)

    @property
    def created(self) -> datetime:
        """When the newest of its inventories was created."""
        return max(entry.taken.created for entry in self.entries.values())

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
        self._entries: dict[tuple[str, str | None], dict[int, ListedLog]] = {}
        """By topic and its upstream ID, then by partition."""
        self._latest: dict[_Key, ListedLog] = {}
        """The entries that were created last."""
        self._truncated: defaultdict[_Key, dict[tuple[int, int | str], TruncatedPartition]] = defaultdict(dict)
        """By their marks."""
        self._recorded: set[tuple[_Key, tuple[int, int | str]]] = set()
        """The marks of truncations that earlier audits have found."""
        self._sources: dict[str, tuple[InventoryMetadata, str]] = {}
        self._conflicts: set[TopicPartition] = set()

    def add(self, inventory: Inventory, where: str) -> None:
        """Add `inventory`; the report names `where` it was found."""
        metadata = inventory.metadata
        self._sources[metadata.id] = metadata, where
        for offsets in inventory.entries:
            of_topic = self._entries.setdefault((offsets.topic, offsets.topic_id), {})
            entry, known = ListedLog(offsets, Taken.of(metadata)), of_topic.get(offsets.partition)
            if known is not None and known.taken.cluster != metadata.cluster:
                self._conflicts.add((offsets.topic, offsets.partition))
            self._compare_logs(entry, known)
            of_topic[offsets.partition] = entry if known is None else newer_log(entry, known)

    def _compare_logs(self, entry: ListedLog, newest: ListedLog | None) -> None:
        """Compare an entry with the newest one, and with the one that was created last."""
        key = _key(entry)
        latest = self._latest.get(key)
        for known in filter(None, (newest, latest)):
            self._compare(entry, known)
        if latest is None or entry.age > latest.age:
            self._latest[key] = entry

    def _compare(self, one: ListedLog, other: ListedLog) -> None:
        found = one.truncation(other)
        if found is not None:
            self._truncated[_key(one)][found.mark] = found

    def compare_recorded(self, recorded: Iterable[RecordedLog]) -> None:
        """Compare the inventories with the logs that an earlier audit has seen."""
        for known in recorded:
            key = _key(known.log)
            topic, topic_id, partition = key
            newest, latest = self._entries.get((topic, topic_id), {}).get(partition), self._latest.get(key)
            for entry in filter(None, (newest, latest)):
                self._compare(entry, known.log)
            marks = ((each.first, each.inventory if each.epoch is None else each.epoch) for each in known.truncated)
            self._recorded.update((key, mark) for mark in marks)

    @property
    def truncated(self) -> list[TruncatedPartition]:
        """The truncations of logs of the topics that are used, without those that earlier audits have found.

        One for each partition: that with the lowest offset. Complete if inventories were added in the order of their
        creation; of others, only the extremes are compared.
        """
        used = self._used()
        found: list[TruncatedPartition] = []
        for key, by_mark in sorted(self._truncated.items(), key=lambda each: each[0][::2]):
            topic, topic_id, partition = key
            new = [each for mark, each in by_mark.items() if (key, mark) not in self._recorded]
            if new and (topic, partition) in used and used[topic, partition].offsets.topic_id == topic_id:
                found.append(min(new, key=lambda each: each.first_difference))
        return found

    def logs(self) -> Mapping[TopicPartition, ListedLog]:
        """Return the logs that are used, by topic and partition."""
        return self._used()

    @property
    def newest_id(self) -> str:
        """The ID of the newest inventory that is used; IDs sort by time. Empty without inventories."""
        return max((entry.taken.id for entry in self._used().values()), default="")

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
            partition: Origin(entry.taken.cluster, entry.offsets.topic_id)
            for partition, entry in self._used().items()
            if entry.offsets.topic_id is not None
        }

    def sources(self) -> list[dict[str, Any]]:
        """Return the inventories that are used, for the report, oldest first."""
        partitions = Counter(entry.taken.id for entry in self._used().values())
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

    def _used(self) -> dict[TopicPartition, ListedLog]:
        used: dict[TopicPartition, ListedLog] = {}
        for generation in self._generations():
            for partition, entry in generation.entries.items():
                key = generation.topic, partition
                known = used.get(key)
                # Without a topic ID, as in all inventories of version 1, it may be the same topic or a recreated one.
                used[key] = entry if known is None else newer_log(entry, known)
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


def _key(log: ListedLog) -> _Key:
    return log.offsets.topic, log.offsets.topic_id, log.offsets.partition
