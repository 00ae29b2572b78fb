"""Owns what a restore says of itself: table, sentence and report; must not know how it was done."""

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


@dataclass(slots=True, kw_only=True)
class Account:
    """What a run has planned and done so far."""

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
    left: int = 0
    """Records that are planned and not written yet."""
    last_write: str | None = None
    """When something was written last."""

    def take(self, results: Mapping[str, Sequence[PartitionResult]]) -> None:
        """Add what was written."""
        for work, some in results.items():
            for one in some:
                known = self.results.setdefault((work, one.partition), PartitionResult(one.partition))
                known.records += one.records
                known.bytes += one.bytes
                known.skipped += one.skipped
                known.failure = one.failure
                known.unreadable += one.unreadable
                self.left = max(self.left - one.records, 0)
        self.last_write = datetime.now(UTC).isoformat(timespec="seconds")

    def failed(self) -> list[tuple[str, PartitionResult]]:
        """The topics and partitions of which some offsets could not be read."""
        topics = {restore.work: restore.source.topic for restore in self.restores}
        return [(topics[work], each) for (work, _), each in sorted(self.results.items()) if each.unreadable]

    @property
    def records(self) -> int:
        """How many records were written, or would be."""
        if self.is_plan:
            return sum(restore.records for restore in self.restores)
        return sum(result.records for result in self.results.values())

    @property
    def is_finished(self) -> bool:
        """Whether no partition ended before its end."""
        return all(not result.failure or result.skipped for result in self.results.values())

    @property
    def outcome(self) -> str:
        """A word for programs."""
        if self.is_plan:
            return "planned"
        return "restored" if self.results else "nothing-to-restore"

    def sentence(self) -> str:
        """The last line."""
        if self.is_plan:
            most = "at most " if any(plan.is_at_most for restore in self.restores for plan in restore.left) else ""
            size = sum(plan.bytes for restore in self.restores for plan in restore.left)
            return f"Would restore {most}{_count(self.records, 'record')} ({size:,} bytes). Nothing was written."
        topics = ", ".join(dict.fromkeys(restore.target for restore in self.restores))
        groups = f" {_count(self.group_offsets, 'consumer position')} committed." if self.group_offsets else ""
        notes = "".join(f" {note}" for note in self.notes)
        if not self.results:
            return f"Nothing to restore: {topics} holds everything already.{groups}{notes}"
        size = sum(result.bytes for result in self.results.values())
        return f"Restored {_count(self.records, 'record')} ({size:,} bytes) to {topics}.{groups}{notes}"

    def progress(self) -> str:
        """How far a run came that was stopped."""
        if self.reached is None:
            return "nothing was written." if not self.results else f"{_count(self.records, 'record')} were written."
        works = {restore.work for restore in self.restores}
        behind = sum(each.records for work in works for each in self.reached.positions(work).values())
        return f"the target holds {_count(behind, 'record')} of this restore."

    def failures(self) -> str:
        """The sentence about what could not be read; empty when everything was."""
        failed = [(work, each) for (work, _), each in sorted(self.results.items()) if each.unreadable]
        if not failed:
            return ""
        work, first = failed[0]
        source = next(str(restore.source) for restore in self.restores if restore.work == work)
        count = sum(last - first_offset + 1 for _, each in failed for first_offset, last in each.unreadable)
        skipped = all(each.skipped for _, each in failed)
        what = "were skipped" if skipped else "could not be read, and what follows on them was not written"
        return (
            f"Restored {_count(self.records, 'record')}, but {_count(count, 'offset')} in "
            f"{_count(len(failed), 'partition')} {what}, the first in partition {first.partition} of {source} "
            f"({first.unreadable[0][0]}-{first.unreadable[0][1]}): {first.failure}"
        )


def report_of(account: Account, *, outcome: str, exit_code: int, message: str) -> dict[str, Any]:
    """The report as JSON."""
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
        findings=tuple(RestoreFinding(refuses=one.refuses, sentence=one.sentence) for one in account.findings),
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
        records=sum(one.records for one in partitions),
        bytes=sum(one.bytes for one in partitions),
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
