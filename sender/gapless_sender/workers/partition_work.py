"""Owns what is planned for each partition before any packet, and what is left of it; must not know how it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.totals import Totals
from gapless_sender.replay.account import PartitionAccount, totals
from gapless_sender.replay.report import PartitionResult, partition_result
from gapless_sender.source.plan import plan_partition, wishes_of_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.replay.saved_progress import Progress
    from gapless_sender.source.event_source import EventSource
    from gapless_sender.source.plan import PartitionPlan, Selection, Wish


@dataclass(slots=True)
class PartitionWork:
    """One partition to be done."""

    plan: PartitionPlan
    wanted_count: int
    account: PartitionAccount

    @property
    def totals(self) -> Totals:
        """Its account so far."""
        return totals(self.plan.wanted, self.wanted_count, self.account)

    @property
    def done(self) -> bool:
        """Whether nothing is left of it."""
        return self.account.has_looked_again and self.is_through

    @property
    def is_through(self) -> bool:
        """Whether every offset was dealt with, in this run or before."""
        return self.plan.wanted.index_reaching(self.account.cursor) == len(self.plan.wanted)

    @property
    def result(self) -> PartitionResult:
        """Its account, with all ranges."""
        return partition_result(self.plan, self.wanted_count, self.account)


def total_of(partitions: Iterable[PartitionWork]) -> Totals:
    """The account of `partitions` together."""
    return sum((partition.totals for partition in partitions), Totals())


def plan_partitions(
    selection: Selection,
    wishes: Sequence[Wish],
    source: EventSource,
    progress: Progress,
    fix_bounds: Callable[[TopicPartition, tuple[int, int]], None],
) -> list[PartitionWork]:
    """Ask Kafka what must be known before anything is sent, for every partition.

    Args:
        selection: what the user asks for.
        wishes: the part of it that is this process's.
        source: connected.
        progress: what was done before; its bounds are kept, so that a resumed open range has the same end.
        fix_bounds: called for each new bound.

    Raises:
        ConfigurationError: a topic or partition does not exist, is another one than before, or the checkpoint does
            not fit.
        SourceUnreachableError: Kafka does not answer or denies access.
    """
    partitions = []
    counts: dict[str, int] = {}
    for wish in wishes:
        place = wish.place
        if place.upstream_partition >= counts.get(place.upstream_topic, 0):
            counts[place.upstream_topic] = source.check(place)
        if not _is_known(wish, progress):
            fix_bounds((place.topic, place.partition), _bounds(selection, wish, source))
        work = partition_work(wish, progress)
        source.prepare(work.plan, work.account.again.first_offset if work.account.again else work.account.cursor)
        partitions.append(work)
    source.kafka.settle_watch()
    return partitions


def known_partitions(selection: Selection, progress: Progress) -> list[PartitionWork]:
    """The partitions of which all is known without Kafka: those that are wanted by numbers, or have their bounds.

    Raises:
        ConfigurationError: the checkpoint does not fit.
    """
    wishes = selection.wishes
    if selection.all_partitions_of is not None:
        last = max((selection.window.to_upstream(partition) for _, partition in progress.bounds), default=-1)
        wishes = wishes_of_all(selection, last + 1)
    return [partition_work(wish, progress) for wish in wishes if _is_known(wish, progress)]


def _is_known(wish: Wish, progress: Progress) -> bool:
    is_open = wish.by_time or wish.open_from is not None
    return not is_open or wish.key in progress.bounds


def partition_work(wish: Wish, progress: Progress) -> PartitionWork:
    """The partition of one partition whose bounds are known, if it needs any. Raises ConfigurationError."""
    first, end = progress.bounds.get(wish.key, (0, 0))
    plan = plan_partition(wish, end=end, first_in_time=first if wish.by_time else None)
    account = progress.account(wish.key)
    behind = plan.wanted.clip(0, account.cursor - 1).count if account.cursor > 0 else 0
    if account.accounted != behind:
        raise ConfigurationError(
            f"The checkpoint was altered or is of other work: it accounts for {account.accounted} offsets of "
            f"{wish.place} where {behind} were planned; give another path, or delete the file to begin again."
        )
    return PartitionWork(plan, plan.wanted.count, account)


def _bounds(selection: Selection, wish: Wish, source: EventSource) -> tuple[int, int]:
    if wish.open_from is not None:
        return wish.open_from, source.bounds(wish.place).high
    return source.first_since(wish.place, selection.first_timestamp_ms)


def all_wishes(selection: Selection, source: EventSource) -> tuple[Wish, ...]:
    """The selection's wishes; for a time range over a whole topic, one for each partition of the topic."""
    if selection.all_partitions_of is None:
        return selection.wishes
    return wishes_of_all(selection, source.partition_count(selection.all_partitions_of.upstream_topic))
