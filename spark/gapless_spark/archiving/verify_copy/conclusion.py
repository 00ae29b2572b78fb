"""The report of a comparison: the combined results of all units, the message, and the exit code.

Must not know how anything was read or compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.quantities import quantity
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.copy_report import (
    MAX_DIFFERENCES,
    CopyReport,
    CopyTotals,
    NotCompared,
    Outcome,
    PartitionComparison,
    PartitionCopy,
    Reason,
    Side,
    Span,
    TimestampTypes,
)
from gapless_spark.archiving.verify_copy.streams import digest_of

if TYPE_CHECKING:
    from gapless_spark.archiving.verify_copy.comparing import Comparison
    from gapless_spark.archiving.verify_copy.copies import Copy
    from gapless_spark.archiving.verify_copy.engines import ReadBy
    from gapless_spark.archiving.verify_copy.plan import Plan
    from gapless_spark.archiving.verify_copy.unit_result import CopyResult, UnitResult

_WHY: dict[Reason, str] = {
    "Expired": "Kafka has deleted",
    "NotWritten": "Kafka does not have yet",
    "NotArchived": "the archive does not cover",
    "Damaged": "are in damaged segments",
}


def conclude(  # noqa: PLR0913 -- what a report says
    comparison: Comparison,
    plan: Plan,
    results: Sequence[UnitResult],
    *,
    read_by: ReadBy,
    seconds: float,
    common_only: bool,
) -> CopyReport:
    """Combine the results into a report.

    Args:
        comparison: the copies, and how they were compared.
        plan: the offsets that were compared.
        results: by partition and offset.
        read_by: what read.
        seconds: how long it took.
        common_only: whether the exit code depends only on what both copies hold.
    """
    a, b = comparison.a, comparison.b
    partitions = tuple(
        _partition(number, a, b, tuple(some)) for number, some in groupby(results, key=attrgetter("partition"))
    )
    differences = [each for result in results for each in result.differences]
    count = sum(result.difference_count for result in results)
    compacted = [each for result in results for each in result.compacted]
    compacted_count = sum(result.compacted_count for result in results)
    not_compared = (*_planned_gaps(plan), *(each for result in results for each in result.not_compared))
    not_compared = tuple(sorted(not_compared, key=lambda each: (each.partition, each.span.first)))
    totals = CopyTotals(
        records_in_a=sum(result.a.records for result in results),
        records_in_b=sum(result.b.records for result in results),
        equal=sum(each.equal for each in partitions),
        different=sum(each.different for each in partitions),
        only_in_a=sum(each.only_in_a for each in partitions),
        only_in_b=sum(each.only_in_b for each in partitions),
        moved=sum(each.moved for each in partitions),
        compacted_in_a=sum(each.compacted_in_a for each in partitions),
        compacted_in_b=sum(each.compacted_in_b for each in partitions),
        offsets_not_compared=sum(each.span.last - each.span.first + 1 for each in not_compared),
    )
    report = CopyReport(
        created=moment_text(datetime.now(UTC)),
        product=metadata.version("gapless-api"),
        alignment=plan.alignment,
        compared=comparison.parts,
        ignored=comparison.ignored,
        a=a.about,
        b=b.about,
        outcome="identical",
        exit_code=ExitCode.DONE,
        message="",
        read_by=read_by,
        seconds=round(seconds, 3),
        totals=totals,
        partitions=partitions,
        differences=tuple(differences[:MAX_DIFFERENCES]),
        differences_omitted=count - min(len(differences), MAX_DIFFERENCES),
        compacted=tuple(compacted[:MAX_DIFFERENCES]),
        compacted_omitted=compacted_count - min(len(compacted), MAX_DIFFERENCES),
        not_compared=not_compared,
        signature=None,
    )
    outcome = _outcome(report, common_only=common_only)
    incomplete = outcome in {"different", "incomplete"}
    code = ExitCode.INCOMPLETE if incomplete else ExitCode.DONE
    return replace(report, outcome=outcome, exit_code=code, message=_sentence(report, outcome))


def _planned_gaps(plan: Plan) -> Iterable[NotCompared]:
    for partition, side, gap in plan.not_compared:
        span = Span(first=gap.first, last=gap.last)
        yield NotCompared(
            partition=partition, side=side, reason=gap.reason, span=span, records=gap.records, detail=gap.detail
        )


def _partition(number: int, a: Copy, b: Copy, results: Sequence[UnitResult]) -> PartitionComparison:
    return PartitionComparison(
        partition=number,
        a=_copy(a, number, [result.a for result in results]),
        b=_copy(b, number, [result.b for result in results]),
        equal=sum(result.equal for result in results),
        different=sum(result.different for result in results),
        only_in_a=sum(result.only_in_a for result in results),
        only_in_b=sum(result.only_in_b for result in results),
        moved=sum(result.moved for result in results),
        compacted_in_a=sum(result.compacted_in_a for result in results),
        compacted_in_b=sum(result.compacted_in_b for result in results),
    )


def _copy(copy: Copy, partition: int, results: Sequence[CopyResult]) -> PartitionCopy | None:
    if partition >= copy.about.partitions:
        return None
    answerable = copy.answerable(partition)
    ranges = tuple(each for result in results for each in result.ranges)
    types = [result.timestamp_types for result in results]
    return PartitionCopy(
        first=answerable.first_offset if len(answerable) else 0,
        end=answerable.last_offset + 1 if len(answerable) else 0,
        records=sum(result.records for result in results),
        digest=digest_of(ranges),
        timestamp_types=TimestampTypes(
            create_time=sum(each.create_time for each in types),
            log_append_time=sum(each.log_append_time for each in types),
            none=sum(each.none for each in types),
        ),
        ranges=ranges,
    )


def _outcome(report: CopyReport, *, common_only: bool) -> Outcome:
    totals = report.totals
    if totals.different or totals.only_in_a or totals.only_in_b or totals.moved or _counts_differ(report):
        return "different"
    if (totals.compacted_in_a or totals.compacted_in_b) and "compacted" not in report.ignored:
        return "different"
    if any(not common_only or each.reason == "Damaged" for each in report.not_compared):
        return "incomplete"
    return "identical" if totals.records_in_a or totals.records_in_b else "nothing-to-compare"


def _counts_differ(report: CopyReport) -> bool:
    """Whether the numbers of partitions differ; an archive may not know a new partition yet."""
    a, b = report.a, report.b
    if report.alignment == "order" or a.kind == b.kind:
        return a.partitions != b.partitions
    kafka, archive = (a, b) if a.kind == "kafka" else (b, a)
    return kafka.partitions < archive.partitions


def _sentence(report: CopyReport, outcome: Outcome) -> str:
    totals = report.totals
    parts = f"{', '.join(report.compared[:-1])} and {report.compared[-1]}"
    if outcome == "nothing-to-compare":
        return f"Nothing to compare: the copies have no records in common.{_rest(report)}"
    if outcome == "different":
        found = [
            f"{count:,} {_noun(count)} {what}"
            for count, what in (
                (totals.only_in_a, "only in A"),
                (totals.only_in_b, "only in B"),
                (totals.different, "different"),
                (totals.moved, "moved"),
            )
            if count
        ]
        if _counts_differ(report):
            found.append(f"{quantity(report.a.partitions, 'partition')} in A and {report.b.partitions:,} in B")
        equal = f"{totals.equal:,} {_noun(totals.equal)} equal"
        if not found:
            return f"The copies differ only by compaction; {equal}.{_compacted(report)}{_rest(report)}"
        return f"The copies differ: {', '.join(found)}; {equal}.{_compacted(report)}{_rest(report)}"
    count = sum(1 for each in report.partitions if each.equal)
    partitions = f"{count:,} partition" + ("" if count == 1 else "s")
    alike = f"{totals.equal:,} {_noun(totals.equal)} in {partitions} compared by {parts}"
    more = f"{_compacted(report)}{_rest(report)}"
    if outcome == "incomplete":
        return f"No difference was found, but not everything could be compared: {alike}.{more}"
    but = " except for compaction" if totals.compacted_in_a or totals.compacted_in_b else ""
    return f"The copies are identical{but}: {alike}.{more}"


def _compacted(report: CopyReport) -> str:
    """Return the sentence about records that compaction removed; empty if there are none."""
    totals = report.totals
    counts = (("A", totals.compacted_in_a), ("B", totals.compacted_in_b))
    texts = [f"{count:,} {_noun(count)} from {name}" for name, count in counts if count]
    if not texts:
        return ""
    accepted = "" if "compacted" in report.ignored else ", which --ignore=compacted accepts"
    return f" Compaction removed {' and '.join(texts)}{accepted}."


def _rest(report: CopyReport) -> str:
    """Return the sentence about offsets that were not compared; empty if there are none."""
    counts: Counter[tuple[Side, Reason]] = Counter()
    for each in report.not_compared:
        counts[each.side, each.reason] += each.span.last - each.span.first + 1
    if not counts:
        return ""
    texts = [f"{count:,} that {_WHY[reason]} ({side.upper()})" for (side, reason), count in sorted(counts.items())]
    return f" Offsets that were not compared: {', '.join(texts)}."


def _noun(count: int) -> str:
    return "record" if count == 1 else "records"
