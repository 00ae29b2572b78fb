"""Owns how a person sees what is missing; must not know how it was found."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_spark.model.outcome import Conclusion

_ROWS = 60
_COLUMNS = {
    "missing": "missing",
    "unknown": "unknown",
    "ranges": "ranges",
    "first_missing": "first",
    "last_missing": "last",
    "received": "received",
    "duplicates": "duplicates",
    "bounds": "expected",
    "inferred_events": "inferred",
    "stale_events": "stale",
    "without_record": "without record",
    "looked_up_to": "looked up to",
}

_AMOUNTS = frozenset(
    {"missing", "unknown", "ranges", "received", "duplicates", "inferred_events", "stale_events", "without_record"}
)


READERS = {"spark": "Read by Spark.", "local": "Read by this process, without Spark."}
"""The report's ``read_by`` as a sentence."""


def show_results(conclusion: Conclusion, stream: IO[str], *, read_by: str | None, with_sentence: bool) -> None:
    """Write a table of the partitions, those with gaps first, what read them, and the sentence that sums it up."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import

    console = Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)
    if conclusion.partitions:
        console.print(_table(conclusion.partitions))
    if len(conclusion.partitions) > _ROWS:
        console.print(f"… and {len(conclusion.partitions) - _ROWS} more partitions; --report lists all.", markup=False)
    if read_by is not None:
        console.print(READERS[read_by], style="dim")
    if with_sentence:
        console.print(conclusion.sentence, markup=False)


def _table(partitions: Sequence[dict[str, Any]]) -> Any:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    columns = {key: heading for key, heading in _COLUMNS.items() if key in partitions[0]}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("partition", no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for partition in sorted(partitions, key=_is_complete)[:_ROWS]:
        place = Text(f"{partition['topic']}/{partition['partition']}")
        table.add_row(
            place, *(_cell(key, partition) for key in columns), style="dim" if _is_complete(partition) else ""
        )
    return table


def _is_complete(partition: dict[str, Any]) -> bool:
    return not (partition["missing"] or partition.get("unknown"))


def _cell(key: str, partition: dict[str, Any]) -> str:
    value = partition[key]
    if value is None:
        return "-"
    if key == "bounds":
        if partition["first_expected"] is None:
            return f"none ({value})"
        return f"{partition['first_expected']} to {partition['last_expected']} ({value})"
    return f"{value:,}" if key in _AMOUNTS else str(value)
