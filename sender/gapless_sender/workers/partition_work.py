"""The work on each partition: its plan, made before any packet is sent, and its account.

Must not know how events are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.totals import Totals
from gapless_sender.replay.account import PartitionAccount, totals
from gapless_sender.replay.report import PartitionResult, partition_result
from gapless_sender.source.plan import PartitionPlan, Selection, plan_partition, requests_of_all_partitions

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.replay.saved_progress import Progress
    from gapless_sender.source.event_source import EventSource
    from gapless_sender.source.requests import PartitionRequest


@dataclass(slots=True)
class PartitionWork:
    """The plan of one partition, and what was done of it."""

    plan: PartitionPlan
    requested_count: int
    account: PartitionAccount

    @property
    def totals(self) -> Totals:
        """Its account so far."""
        return totals(self.plan.requested, self.requested_count, self.account)

    @property
    def done(self) -> bool:
        """Whether nothing remains to be done."""
        return self.account.recheck_done and self.read_to_end

    @property
    def read_to_end(self) -> bool:
        """Whether every requested offset has an outcome, from this run or an earlier one."""
        return self.plan.requested.index_reaching(self.account.cursor) == len(self.plan.requested)

    @property
    def result(self) -> PartitionResult:
        """Its account, with all ranges."""
        return partition_result(self.plan, self.requested_count, self.account)


def sum_totals(works: Iterable[PartitionWork]) -> Totals:
    """Return the account of `works` together."""
    return sum((work.totals for work in works), Totals())


def plan_partitions(
    selection: Selection,
    requests: Sequence[PartitionRequest],
    source: EventSource,
    progress: Progress,
    fix_bounds: Callable[[TopicPartition, tuple[int, int]], None],
) -> list[PartitionWork]:
    """Query Kafka for what must be known before anything is sent, for every partition.

    Args:
        selection: what the user requests.
        requests: this process's share of it.
        source: connected.
        progress: of earlier runs; its bounds are kept, so that a resumed open range has the same end.
        fix_bounds: called for each new pair of bounds.

    Raises:
        ConfigurationError: a topic or partition does not exist, was recreated, or the checkpoint does not fit.
        SourceUnreachableError: Kafka does not respond or denies access.
    """
    works = []
    counts: dict[str, int] = {}
    for request in requests:
        partition = request.partition
        if partition.upstream_partition >= counts.get(partition.upstream_topic, 0):
            counts[partition.upstream_topic] = source.check(partition)
        if not _has_bounds(request, progress):
            fix_bounds(partition.key, _query_bounds(selection, request, source))
        work = partition_work(request, progress)
        account = work.account
        source.check_archive(work.plan, account.retry.first_offset if account.retry else account.cursor)
        works.append(work)
    source.kafka.settle_watch()
    return works


def plan_without_kafka(selection: Selection, progress: Progress) -> list[PartitionWork]:
    """Plan the partitions that need no query: those requested by number, and those whose bounds are known.

    Raises:
        ConfigurationError: the checkpoint does not fit.
    """
    requests = known_requests(selection, progress.bounds)
    return [partition_work(request, progress) for request in requests if _has_bounds(request, progress)]


def known_requests(selection: Selection, keys: Iterable[TopicPartition]) -> tuple[PartitionRequest, ...]:
    """Return the selection's requests; of a time range over a complete topic, those up to the last one in `keys`."""
    if selection.all_partitions_of is None:
        return selection.requests
    last = max((selection.window.to_upstream(partition) for _, partition in keys), default=-1)
    return requests_of_all_partitions(selection, last + 1)


def _has_bounds(request: PartitionRequest, progress: Progress) -> bool:
    """Return whether the bounds of a request are known, or not needed."""
    is_open = request.by_time or request.open_from is not None
    return not is_open or request.partition.key in progress.bounds


def partition_work(request: PartitionRequest, progress: Progress) -> PartitionWork:
    """Return the work on a partition whose bounds are known, if it needs any. Raises ConfigurationError."""
    key = request.partition.key
    first, end = progress.bounds.get(key, (0, 0))
    plan = plan_partition(request, end=end, first_in_time=first if request.by_time else None)
    account = progress.account(key)
    planned = plan.requested.clip(0, account.cursor - 1).count if account.cursor > 0 else 0
    if account.accounted != planned:
        raise ConfigurationError(
            f"The checkpoint was altered or belongs to other work: it accounts for {account.accounted} offsets of "
            f"{request.partition} where {planned} were planned; give another path, or delete the file to start from "
            f"the beginning."
        )
    return PartitionWork(plan, plan.requested.count, account)


def _query_bounds(selection: Selection, request: PartitionRequest, source: EventSource) -> tuple[int, int]:
    if request.open_from is not None:
        return request.open_from, source.bounds(request.partition).high
    return source.first_since(request.partition, selection.first_timestamp_ms)


def all_requests(selection: Selection, source: EventSource) -> tuple[PartitionRequest, ...]:
    """Return the selection's requests; for a time range over a complete topic, one for each of its partitions."""
    if selection.all_partitions_of is None:
        return selection.requests
    return requests_of_all_partitions(selection, source.partition_count(selection.all_partitions_of.upstream_topic))
