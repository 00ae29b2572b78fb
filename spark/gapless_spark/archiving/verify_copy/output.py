"""Owns how a comparison is printed: a table of the partitions, the first differences, and the summary."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from gapless_spark.output.tables import MAX_ROWS, READERS, new_table, open_console, print_omitted

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import CopyReport, Difference, NotCompared, PartitionComparison, Span

_MAX_LISTED = 20
_COUNTS = {
    "equal": "equal",
    "different": "different",
    "only_in_a": "only in A",
    "only_in_b": "only in B",
    "moved": "moved",
}
"""Members of a partition's comparison, and their columns."""
_COMPACTED = {"compacted_in_a": "compacted in A", "compacted_in_b": "compacted in B"}
"""Further ones, if there are any such records."""


def show_report(report: CopyReport, stream: IO[str], *, with_sentence: bool) -> None:
    """Print the result; without the summary if an error message contains it."""
    console = open_console(stream)
    console.print(f"A: {report.a.address}\nB: {report.b.address}", markup=False)
    console.print(f"Aligned by {report.alignment}.", style="dim", markup=False)
    counted = dict(_COUNTS)
    if report.totals.compacted_in_a or report.totals.compacted_in_b:
        counted |= _COMPACTED
    table = new_table([], ["partition", "in A", "in B", *counted.values()])
    for partition in sorted(report.partitions, key=_is_equal)[:MAX_ROWS]:
        records = ["-" if copy is None else f"{copy.records:,}" for copy in (partition.a, partition.b)]
        counts = [f"{getattr(partition, name):,}" for name in counted]
        table.add_row(str(partition.partition), *records, *counts, style="dim" if _is_equal(partition) else "")
    if report.partitions:
        console.print(table)
    print_omitted(console, len(report.partitions) - MAX_ROWS)
    for difference in report.differences[:_MAX_LISTED]:
        console.print(_difference(difference), markup=False)
    print_omitted(console, len(report.differences) + report.differences_omitted - _MAX_LISTED, "differences")
    for compacted in report.compacted[:_MAX_LISTED]:
        console.print(_difference(compacted), markup=False)
    omitted = len(report.compacted) + report.compacted_omitted - _MAX_LISTED
    print_omitted(console, omitted, "ranges that were compacted")
    for gap in report.not_compared[:_MAX_LISTED]:
        console.print(_gap(gap), markup=False)
    print_omitted(console, len(report.not_compared) - _MAX_LISTED, "ranges that were not compared")
    if report.read_by is not None:
        console.print(READERS[report.read_by], style="dim")
    if with_sentence:
        console.print(report.message, markup=False)


def _is_equal(partition: PartitionComparison) -> bool:
    return not (partition.different or partition.only_in_a or partition.only_in_b or partition.moved)


def _difference(difference: Difference) -> str:
    noun = "record" if difference.records == 1 else "records"
    spans = (("A", difference.a), ("B", difference.b))
    offsets = " and ".join(f"{name} {_span(span)}" for name, span in spans if span is not None)
    what = {
        "onlyInA": "only in A",
        "onlyInB": "only in B",
        "different": f"different in {', '.join(difference.parts)}",
        "moved": "moved",
        "compactedInA": "compacted in A",
        "compactedInB": "compacted in B",
    }[difference.kind]
    return f"partition {difference.partition}: {difference.records:,} {noun} {what} (offset {offsets})"


def _gap(gap: NotCompared) -> str:
    detail = f": {gap.detail}" if gap.detail else ""
    return (
        f"partition {gap.partition}: offset {_span(gap.span)} not compared, {gap.reason} in {gap.side.upper()}{detail}"
    )


def _span(span: Span) -> str:
    return f"{span.first}" if span.first == span.last else f"{span.first} to {span.last}"
