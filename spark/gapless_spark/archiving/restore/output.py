"""Owns the output of a restore: table, summary and report; must not know how records are written."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
from gapless_spark.output.tables import MAX_ROWS, new_table, open_console, print_omitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_api.wire.restore_report import CreatedTopic
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_spark.archiving.restore.plan import PartitionPlan
    from gapless_spark.archiving.restore.preflight import Finding
    from gapless_spark.archiving.restore.works import TopicRestore

_MAX_RANGES = 100
"""Of one partition in the report."""
DELETED = "deleted-from-target"
"""The outcome if there is nothing to write, and the target has lost records of earlier runs."""


@dataclass(slots=True, kw_only=True)
class Account:
    """The plan and the progress of a run."""

    created: str
    is_plan: bool
    started: float
    restores: Sequence[TopicRestore] = ()
    findings: tuple[Finding, ...] = ()
    new_topics: tuple[CreatedTopic, ...] = ()
    results: dict[tuple[str, int], PartitionResult] = field(default_factory=dict)
    """By work and source partition."""
    written_by: str | None = None
    reached: ControlState | None = None
    """The positions when the run was stopped."""
    group_offsets: int = 0
    notes: list[str] = field(default_factory=list)
    restored_before: int = 0
    """Records that earlier runs had written."""
    remaining: int = 0
    """Records that are planned but not written yet."""
    last_write: str | None = None
    """The time of the last write."""
    created_topics: tuple[CreatedTopic, ...] = ()
    """Topics without records in the archive that were created."""
    deleted: tuple[str, ...] = ()
    """A sentence for each partition of a target that no longer holds what earlier runs wrote."""

    def add_results(self, results: Mapping[str, Sequence[PartitionResult]]) -> None:
        """Add the results of a write."""
        for work, of_work in results.items():
            for result in of_work:
                total = self.results.setdefault((work, result.partition), PartitionResult(result.partition))
                total.records += result.records
                total.bytes += result.bytes
                total.skipped += result.skipped
                total.failure = result.failure
                total.unreadable += result.unreadable
                self.remaining = max(self.remaining - result.records, 0)
        self.last_write = datetime.now(UTC).isoformat(timespec="seconds")

    def partitions_with_losses(self) -> list[tuple[str, PartitionResult]]:
        """Return the topics and results of partitions with unreadable offsets."""
        topics = {restore.work: restore.source.topic for restore in self.restores}
        return [(topics[work], each) for (work, _), each in sorted(self.results.items()) if each.unreadable]

    @property
    def records(self) -> int:
        """The number of records that were written, or would be."""
        if self.is_plan:
            return sum(restore.records for restore in self.restores)
        return sum(result.records for result in self.results.values())

    @property
    def is_finished(self) -> bool:
        """Whether all partitions were written to their ends."""
        return all(not result.failure or result.skipped for result in self.results.values())

    @property
    def outcome(self) -> str:
        """The outcome in the report."""
        if self.is_plan:
            return "planned"
        if self.deleted and not self.results:
            return DELETED
        return "restored" if self.results or self.created_topics else "nothing-to-restore"

    def sentence(self) -> str:
        """Return the summary."""
        if self.is_plan:
            most = "at most " if any(plan.is_at_most for restore in self.restores for plan in restore.remaining) else ""
            size = sum(plan.bytes for restore in self.restores for plan in restore.remaining)
            return f"Would restore {most}{_count(self.records, 'record')} ({size:,} bytes). Nothing was written."
        topics = ", ".join(dict.fromkeys(restore.target for restore in self.restores))
        groups = f" {_count(self.group_offsets, 'consumer position')} committed." if self.group_offsets else ""
        notes = "".join(f" {note}" for note in (*self.notes, *self.deleted))
        if self.deleted and not self.results:
            return (
                f"Nothing was restored: all records were written before, but the target no longer holds all of "
                f"them.{notes} Restore to another topic with --to-topic to have them again."
            )
        if self.created_topics and not self.results:
            created = ", ".join(f"{new.topic} ({_count(new.partitions, 'partition')})" for new in self.created_topics)
            return f"Created {created}; the archive has no records of it.{groups}{notes}"
        if not self.results:
            return f"Nothing to restore: {topics} already has all records.{groups}{notes}"
        size = sum(result.bytes for result in self.results.values())
        return f"Restored {_count(self.records, 'record')} ({size:,} bytes) to {topics}.{groups}{notes}"

    def progress(self) -> str:
        """Return the progress of a run that was stopped."""
        if self.reached is None:
            return "nothing was written." if not self.results else f"{_count(self.records, 'record')} were written."
        works = {restore.work for restore in self.restores}
        written = sum(each.records for work in works for each in self.reached.positions(work).values())
        return f"the target holds {_count(written, 'record')} of this restore."

    def failures(self) -> str:
        """Return the message about unreadable offsets; empty if there are none."""
        failed = [(work, each) for (work, _), each in sorted(self.results.items()) if each.unreadable]
        if not failed:
            return ""
        work, first = failed[0]
        source = next(str(restore.source) for restore in self.restores if restore.work == work)
        count = sum(last - first_offset + 1 for _, each in failed for first_offset, last in each.unreadable)
        skipped = all(each.skipped for _, each in failed)
        what = "were skipped" if skipped else "could not be read, and the following offsets were not written"
        return (
            f"Restored {_count(self.records, 'record')}, but {_count(count, 'offset')} in "
            f"{_count(len(failed), 'partition')} {what}, the first in partition {first.partition} of {source} "
            f"({first.unreadable[0][0]}-{first.unreadable[0][1]}): {first.failure}"
        )


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
        group_offsets=account.group_offsets,
        topics=topics,
        new_topics=account.new_topics,
        findings=tuple(RestoreFinding(refuses=each.refuses, sentence=each.sentence) for each in account.findings),
        seconds=round(time.monotonic() - account.started, 3),
    )
    return RESTORE_REPORT.to_json(report)


def _topic(account: Account, restore: TopicRestore) -> RestoredTopic:
    partitions = tuple(_partition(account, restore.work, plan) for plan in restore.plans)
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


def _partition(account: Account, work: str, plan: PartitionPlan) -> RestoredPartition:
    result = account.results.get((work, plan.partition), PartitionResult(plan.partition))
    return RestoredPartition(
        partition=plan.partition,
        target_partition=plan.target_partition,
        records=plan.records if account.is_plan else result.records,
        bytes=plan.bytes if account.is_plan else result.bytes,
        first=plan.ranges.first_offset if plan.ranges else None,
        last=plan.ranges.last_offset if plan.ranges else None,
        explained=_ranges(plan.explained.head(_MAX_RANGES)),
        lost=_ranges([*plan.unexplained.head(_MAX_RANGES)] if account.is_plan else result.unreadable[:_MAX_RANGES]),
        failure=result.failure,
    )


def _ranges(pairs: Iterable[tuple[int, int]]) -> tuple[MissingRange, ...]:
    return tuple(MissingRange(first, last) for first, last in pairs)


def show(account: Account) -> None:
    """Print a table of the partitions, the topics that would be created, and the findings."""
    from rich.text import Text  # noqa: PLC0415 -- slow to import

    console = open_console(sys.stdout)
    table = new_table(["source", "target"], ["offsets", "records", "bytes", "deleted before archived", "lost"])
    rows = 0
    for restore in account.restores:
        for plan in restore.plans:
            partition = _partition(account, restore.work, plan)
            if not (plan.ranges or partition.records or partition.explained or partition.lost):
                continue
            rows += 1
            if rows <= MAX_ROWS:
                table.add_row(
                    Text(f"{restore.source}/{plan.partition}"),
                    Text(f"{restore.target}/{plan.target_partition}"),
                    "-" if partition.first is None else f"{partition.first}-{partition.last}",
                    f"{partition.records:,}",
                    f"{partition.bytes:,}",
                    f"{sum(each.last - each.first + 1 for each in partition.explained):,}",
                    f"{sum(each.last - each.first + 1 for each in partition.lost):,}",
                )
    if rows:
        console.print(table)
    print_omitted(console, rows - MAX_ROWS)
    for new in account.new_topics if account.is_plan else ():
        settings = (
            ", ".join(f"{name}={value}" for name, value in sorted(new.configuration.items())) or "no own settings"
        )
        console.print(f"Would create {new.topic} with {_count(new.partitions, 'partition')}, {settings}.", markup=False)
    for finding in account.findings if account.is_plan else ():
        if not finding.refuses:
            console.print(f"Note: {finding.sentence}", markup=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
