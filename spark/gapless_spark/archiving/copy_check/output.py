"""Owns how a comparison is shown to people: a table of the partitions, the first differences, and the sentence."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from gapless_spark.output.tables import READERS

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import CopyReport, Difference, NotCompared, PartitionComparison, Span

_ROWS = 60
_LISTED = 20
_COUNTS = ("equal", "different", "only_in_a", "only_in_b", "moved")


def show_report(report: CopyReport, stream: IO[str], *, with_sentence: bool) -> None:
    """Write what was found; without the sentence where an error says it."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import
    from rich.table import Table  # noqa: PLC0415

    console = Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)
    console.print(f"A: {report.a.address}\nB: {report.b.address}", markup=False)
    console.print(f"Aligned by {report.alignment}.", style="dim", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("partition", "in A", "in B", *(name.replace("_", " ").replace(" a", " A") for name in _COUNTS)):
        table.add_column(heading.replace(" b", " B"), justify="right", no_wrap=True)
    for one in sorted(report.partitions, key=_is_alike)[:_ROWS]:
        records = ["-" if copy is None else f"{copy.records:,}" for copy in (one.a, one.b)]
        style = "dim" if _is_alike(one) else ""
        table.add_row(str(one.partition), *records, *(f"{getattr(one, name):,}" for name in _COUNTS), style=style)
    if report.partitions:
        console.print(table)
    _show_more(console, len(report.partitions) - _ROWS, "partitions")
    for difference in report.differences[:_LISTED]:
        console.print(_difference(difference), markup=False)
    _show_more(console, len(report.differences) + report.differences_omitted - _LISTED, "differences")
    for gap in report.not_compared[:_LISTED]:
        console.print(_gap(gap), markup=False)
    _show_more(console, len(report.not_compared) - _LISTED, "ranges that were not compared")
    if report.read_by is not None:
        console.print(READERS[report.read_by], style="dim")
    if with_sentence:
        console.print(report.message, markup=False)


def _show_more(console: object, count: int, what: str) -> None:
    if count > 0:
        console.print(f"… and {count:,} more {what}; --report lists them.", markup=False)  # type: ignore[attr-defined]


def _is_alike(one: PartitionComparison) -> bool:
    return not (one.different or one.only_in_a or one.only_in_b or one.moved)


def _difference(one: Difference) -> str:
    noun = "record" if one.records == 1 else "records"
    places = " and ".join(f"{name} {_span(span)}" for name, span in (("A", one.a), ("B", one.b)) if span is not None)
    what = {
        "onlyInA": "only in A",
        "onlyInB": "only in B",
        "different": f"different in {', '.join(one.parts)}",
        "moved": "at another place",
    }[one.kind]
    return f"partition {one.partition}: {one.records:,} {noun} {what} (offset {places})"


def _gap(one: NotCompared) -> str:
    detail = f": {one.detail}" if one.detail else ""
    return (
        f"partition {one.partition}: offset {_span(one.span)} not compared, {one.reason} in {one.side.upper()}{detail}"
    )


def _span(span: Span) -> str:
    return f"{span.first}" if span.first == span.last else f"{span.first} to {span.last}"
