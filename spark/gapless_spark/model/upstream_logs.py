"""What an audit state records about the upstream logs, so that the next audit notices a truncated one.

Must not know where a state is stored, or how inventories are chosen. An audit that finds a truncation cannot tell to
which log the events belong that were received from the first replaced offset on. It forgets them, so these offsets are
unknown until they are received again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Self

from gapless_api.codec.canonical import moment_text
from gapless_api.inventory.epochs import EpochStart
from gapless_api.inventory.form import Isolation, PartitionOffsets
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import LogEpoch, Truncation, UpstreamLog
from gapless_spark.model.listed_logs import ListedLog, Taken, TruncatedPartition, in_order

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """The log of a source partition as an earlier audit has seen it."""

    log: ListedLog
    truncated: tuple[Truncation, ...] = ()

    @classmethod
    def of_state(cls, recorded: UpstreamLog) -> Self:
        """Convert what a state contains. Raises ValueError if it is invalid."""
        epochs = tuple(EpochStart(start.epoch, start.first_offset) for start in recorded.epochs) or None
        last = recorded.end - 1 if recorded.end > recorded.first else None
        offsets = PartitionOffsets(
            recorded.topic, recorded.partition, recorded.first, last, None, recorded.id or None, epochs
        )
        created = datetime.fromisoformat(recorded.created)
        taken = Taken(recorded.inventory, created, recorded.cluster, Isolation(recorded.isolation))
        return cls(ListedLog(offsets, taken), recorded.truncated)

    def for_state(self) -> UpstreamLog:
        """Convert it for the next audit."""
        offsets, taken = self.log.offsets, self.log.taken
        return UpstreamLog(
            topic=offsets.topic,
            partition=offsets.partition,
            id=offsets.topic_id or "",
            cluster=taken.cluster,
            isolation=str(taken.isolation),
            inventory=taken.id,
            created=moment_text(taken.created),
            first=offsets.first,
            end=offsets.end,
            epochs=tuple(LogEpoch(start.epoch, start.first_offset) for start in offsets.epochs or ()),
            truncated=self.truncated,
        )

    def followed_by(self, newer: ListedLog) -> RecordedLog:
        """Return what the next audit has to know when an inventory lists this partition as `newer`."""
        if newer.offsets.topic_id != self.log.offsets.topic_id:
            return RecordedLog(newer)
        if newer.taken.cluster != self.log.taken.cluster:
            return replace(self, log=newer)
        if None in {newer.offsets.last_epoch, self.log.offsets.last_epoch}:  # as `ListedLog.truncation` compares them
            return replace(self, log=max(self.log, newer, key=lambda each: each.age))
        return replace(self, log=in_order(self.log, newer)[1])


def replaced_from(found: Iterable[TruncatedPartition]) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that was replaced or lost."""
    firsts: dict[TopicPartition, int] = {}
    for each in found:
        key = each.topic, each.partition
        firsts[key] = min(each.first_difference, firsts.get(key, each.first_difference))
    return firsts


def unknown_offsets(
    recorded: Iterable[RecordedLog], restarted: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRanges]:
    """Return the offsets of truncated logs that count as unknown until they are received again.

    Args:
        recorded: the logs of the state.
        restarted: partitions of topics that were recreated, of which nothing is left.
    """
    windows = {(each.log.offsets.topic, each.log.offsets.partition): each.truncated for each in recorded}
    return {
        key: OffsetRanges([(each.first, each.end - 1) for each in truncated])
        for key, truncated in windows.items()
        if truncated and key not in restarted
    }


def next_logs(
    recorded: Iterable[RecordedLog],
    listed: Mapping[TopicPartition, ListedLog],
    found: Iterable[TruncatedPartition],
    highest: Mapping[TopicPartition, int],
) -> tuple[UpstreamLog, ...]:
    """Return the logs for the next audit, sorted by partition.

    Args:
        recorded: the logs of the state.
        listed: the logs of the newest inventories.
        found: truncations that are not in the state.
        highest: the highest offset that was ever received of a partition.
    """
    logs = {(each.log.offsets.topic, each.log.offsets.partition): each for each in recorded}
    for key, log in listed.items():
        logs[key] = logs[key].followed_by(log) if key in logs else RecordedLog(log)
    added: defaultdict[TopicPartition, list[Truncation]] = defaultdict(list)
    for each in found:
        key = each.topic, each.partition
        end = max(highest.get(key, -1) + 1, each.earlier_end, each.later_end, each.first_difference + 1)
        added[key].append(
            Truncation(first=each.first_difference, end=end, epoch=each.later_epoch, inventory=each.later_id)
        )
    return tuple(replace(log, truncated=(*log.truncated, *added[key])).for_state() for key, log in sorted(logs.items()))
