"""The report of a restore; must not know how records are written, nor what is printed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gapless_api.wire.restore_report import (
    RESTORE_REPORT,
    MissingRange,
    RestoredPartition,
    RestoredTopic,
    RestoreFinding,
    RestoreReport,
)
from gapless_spark.archiving.restore.task import PartitionResult

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.account import Account
    from gapless_spark.archiving.restore.plan import PartitionPlan
    from gapless_spark.archiving.restore.works import TopicRestore

_MAX_RANGES = 100
"""Of one partition."""


def report_of(account: Account, *, outcome: str, exit_code: int, message: str) -> dict[str, Any]:
    """Return the report as JSON."""
    topics = tuple(_topic(account, restore) for restore in account.restores)
    report = RestoreReport(
        command="restore",
        created=account.created,
        plan=account.is_plan,
        outcome=outcome,
        exit_code=exit_code,
        message=message,
        written_by=account.written_by,
        records=sum(topic.records for topic in topics),
        bytes=sum(topic.bytes for topic in topics),
        lost=sum(last - first + 1 for each in account.results.values() for first, last in each.unreadable),
        refused=sum(
            account.refused(restore, plan.partition).count for restore in account.restores for plan in restore.plans
        ),
        group_offsets=account.group_offsets,
        topics=topics,
        new_topics=account.new_topics,
        findings=tuple(RestoreFinding(refuses=each.refuses, sentence=each.sentence) for each in account.findings),
        seconds=round(time.monotonic() - account.started, 3),
    )
    return RESTORE_REPORT.to_json(report)


def _topic(account: Account, restore: TopicRestore) -> RestoredTopic:
    partitions = tuple(partition_report(account, restore, plan) for plan in restore.plans)
    return RestoredTopic(
        region=restore.source.region,
        topic=restore.source.topic,
        topic_id=restore.source.topic_id,
        target=restore.target,
        target_id=restore.target_id,
        work=restore.work,
        records=sum(partition.records for partition in partitions),
        bytes=sum(partition.bytes for partition in partitions),
        partitions=partitions,
    )


def partition_report(account: Account, restore: TopicRestore, plan: PartitionPlan) -> RestoredPartition:
    """Return what is reported about a partition."""
    result = account.results.get((restore.work, plan.partition), PartitionResult(plan.partition))
    refused = account.refused(restore, plan.partition)
    return RestoredPartition(
        partition=plan.partition,
        target_partition=plan.target_partition,
        records=plan.records if account.is_plan else result.records,
        bytes=plan.bytes if account.is_plan else result.bytes,
        first=plan.ranges.first_offset if plan.ranges else None,
        last=plan.ranges.last_offset if plan.ranges else None,
        explained=_ranges(plan.explained.head(_MAX_RANGES)),
        lost=_ranges([*plan.unexplained.head(_MAX_RANGES)] if account.is_plan else result.unreadable[:_MAX_RANGES]),
        refused=_ranges(refused.head(_MAX_RANGES)),
        stopped_at=result.stopped_at,
        failure=result.failure or result.stop_reason,
    )


def _ranges(pairs: Iterable[tuple[int, int]]) -> tuple[MissingRange, ...]:
    return tuple(MissingRange(first, last) for first, last in pairs)
