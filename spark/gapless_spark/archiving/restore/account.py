"""The account of a restore and its summary; must not know how records are written, nor how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.quantities import quantity
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.archiving.restore.task import PartitionResult

if TYPE_CHECKING:
    from gapless_api.wire.restore_report import CreatedTopic
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_spark.archiving.restore.preflight import Finding
    from gapless_spark.archiving.restore.works import TopicRestore

_MAX_LISTED = 3
TARGET_REFUSES, RESTORE_FAILED = "TargetRefuses", "RestoreFailed"
"""Why a record was not written: the target refuses it, or an exception that no rule expects was raised."""
DELETED = "deleted-from-target"
"""The outcome if there is nothing to write, and the target has lost records of earlier runs."""


class Loss(NamedTuple):
    """Offsets that were not restored."""

    topic: str
    """In the archive."""
    partition: int
    first: int
    last: int
    """Inclusive."""
    reason: str


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
    without_records: tuple[str, ...] = ()
    """A sentence for each topic of which nothing was or will be written, as the archive has no such records."""
    waits_for: tuple[str, ...] = ()
    """Topics that are restored as soon as the archive has anything of them."""
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
                total.refused += result.refused
                total.cause = result.cause or total.cause
                total.stopped_at, total.stop_reason = result.stopped_at, result.stop_reason
                total.is_unexpected = result.is_unexpected
                self.remaining = max(self.remaining - result.records, 0)
        self.last_write = datetime.now(UTC).isoformat(timespec="seconds")

    def losses(self) -> Iterator[Loss]:
        """Yield offsets that were not restored, of this run and of those before it."""
        for restore in self.restores:
            partitions = {plan.partition for plan in restore.plans}
            for partition in sorted(partitions):
                result = self.results.get((restore.work, partition), PartitionResult(partition))
                place = restore.source.topic, partition
                for first, last in result.unreadable:
                    yield Loss(*place, first, last, result.failure)
                for first, last in self.refused(restore, partition):
                    yield Loss(*place, first, last, TARGET_REFUSES)
                if result.stopped_at is not None:
                    yield Loss(
                        *place,
                        result.stopped_at,
                        result.stopped_at,
                        RESTORE_FAILED if result.is_unexpected else TARGET_REFUSES,
                    )

    def refused(self, restore: TopicRestore, partition: int) -> OffsetRanges:
        """Return the records of a partition that the target refused and that were skipped, by earlier runs as well."""
        before = OffsetRanges((each.first, each.last) for each in restore.refused.get(partition, ()))
        result = self.results.get((restore.work, partition))
        now = OffsetRanges.of_offsets(first for first, _ in result.refused) if result is not None else OffsetRanges()
        return before | now

    @property
    def records(self) -> int:
        """The number of records that were written, or would be."""
        if self.is_plan:
            return sum(restore.records for restore in self.restores)
        return sum(result.records for result in self.results.values())

    @property
    def is_finished(self) -> bool:
        """Whether all partitions were written to their ends."""
        return all(
            (not result.failure or result.skipped) and result.stopped_at is None for result in self.results.values()
        )

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
            why = "".join(f" {sentence}" for sentence in self.without_records)
            return f"Would restore {most}{quantity(self.records, 'record')} ({size:,} bytes). Nothing was written.{why}"
        topics = ", ".join(dict.fromkeys(restore.target for restore in self.restores))
        groups = f" {quantity(self.group_offsets, 'consumer position')} committed." if self.group_offsets else ""
        notes = "".join(f" {note}" for note in (*self.notes, *self.deleted))
        if self.deleted and not self.results:
            return (
                f"Nothing was restored: all records were written before, but the target no longer holds all of "
                f"them.{notes} Restore to another topic with --to-topic to have them again."
            )
        if self.created_topics and not self.results:
            created = ", ".join(f"{new.topic} ({quantity(new.partitions, 'partition')})" for new in self.created_topics)
            return f"Created {created}. {' '.join(self.without_records)}{groups}{notes}"
        if not self.results:
            complete = len(self.restores) > len(self.without_records)
            has_all = (
                f" The target already has all {'other ' if self.without_records else ''}records." if complete else ""
            )
            reasons = "".join(f" {sentence}" for sentence in self.without_records)
            return f"Nothing to restore.{reasons}{has_all}{groups}{notes}"
        size = sum(result.bytes for result in self.results.values())
        notes = "".join(f" {sentence}" for sentence in (*self.without_records, notes.strip()) if sentence)
        return f"Restored {quantity(self.records, 'record')} ({size:,} bytes) to {topics}.{groups}{notes}"

    def progress(self) -> str:
        """Return the progress of a run that was stopped."""
        if self.reached is None:
            return "nothing was written." if not self.results else f"{quantity(self.records, 'record')} were written."
        works = {restore.work for restore in self.restores}
        written = sum(each.records for work in works for each in self.reached.positions(work).values())
        return f"the target holds {quantity(written, 'record')} of this restore."

    def failures(self) -> str:
        """Return the message about offsets that were not restored; empty if there are none."""
        found = (self._unreadable(), self._skipped(), self._stops())
        parts = [part for part in found if part]
        if not parts:
            return ""
        return f"Restored {quantity(self.records, 'record')}, but {'; '.join(parts)}"

    def _unreadable(self) -> str:
        failed = [(work, each) for (work, _), each in sorted(self.results.items()) if each.unreadable]
        if not failed:
            return ""
        work, first = failed[0]
        count = sum(last - first_offset + 1 for _, each in failed for first_offset, last in each.unreadable)
        skipped = all(each.skipped for _, each in failed)
        what = "were skipped" if skipped else "could not be read, and the following offsets were not written"
        return (
            f"{quantity(count, 'offset')} in {quantity(len(failed), 'partition')} {what}, the first in partition "
            f"{first.partition} of {self._source(work)} ({first.unreadable[0][0]}-{first.unreadable[0][1]}): "
            f"{first.failure}"
        )

    def _skipped(self) -> str:
        """Describe the records that the target refused and that were skipped, by earlier runs as well."""
        found = [
            (restore, plan.partition, refused)
            for restore in self.restores
            for plan in restore.plans
            if (refused := self.refused(restore, plan.partition))
        ]
        if not found:
            return ""
        restore, partition, first = found[0]
        earlier = [each.cause for each in restore.refused.get(partition, ()) if each.first == first.first_offset]
        cause = earlier[0] if earlier else self.results[restore.work, partition].cause
        listed = ", ".join(
            f"{of.source}/{number} {_ranges_text(refused)}" for of, number, refused in found[:_MAX_LISTED]
        )
        more = f" and {quantity(len(found) - _MAX_LISTED, 'more partition')}" if len(found) > _MAX_LISTED else ""
        count = sum(refused.count for _, _, refused in found)
        were, them = ("is", "it") if count == 1 else ("are", "them")
        return (
            f"{quantity(count, 'record')} {were} not in the target, because it refused {them} and "
            f"--on-bad-record=skip-and-record was given ({listed}{more}; the first one: {cause})."
        )

    def _stops(self) -> str:
        stopped = [(work, each) for (work, _), each in sorted(self.results.items()) if each.stopped_at is not None]
        if not stopped:
            return ""
        work, first = stopped[0]
        listed = ", ".join(
            f"{self._source(work)}/{each.partition} {each.stopped_at:,}" for work, each in stopped[1 : _MAX_LISTED + 1]
        )
        omitted = len(stopped) - 1 - _MAX_LISTED
        more = f" Also stopped: {listed}{f' and {omitted:,} more' if omitted > 0 else ''}." if listed else ""
        return (
            f"{quantity(len(stopped), 'partition')} stopped at a record that cannot be written, and everything else "
            f"was written: partition {first.partition} of {self._source(work)} at offset {first.stopped_at:,}: "
            f"{first.stop_reason}{more}"
        )

    def _source(self, work: str) -> str:
        return next(str(restore.source) for restore in self.restores if restore.work == work)


def _ranges_text(ranges: OffsetRanges) -> str:
    listed = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges.head(_MAX_LISTED))
    return listed + ("…" if len(ranges) > _MAX_LISTED else "")
