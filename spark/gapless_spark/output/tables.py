"""The tables that commands print, and the table of missing events; must not know how they were found."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from gapless_spark.model.outcome import Conclusion

MAX_ROWS = 60
"""Rows of a table on standard output; the report lists all."""
MAX_HOURS = 12
"""Hours with losses on standard output, those with the most."""
_COLUMNS = {
    "missing": "missing",
    "unknown": "unknown",
    "ranges": "ranges",
    "first_missing": "first",
    "last_missing": "last",
    "lost_after": "lost after",
    "received": "received",
    "duplicates": "duplicates",
    "bounds": "expected",
    "inferred_events": "inferred",
    "stale_events": "no longer tracked",
    "without_record": "without record",
    "looked_up_to": "looked up to",
}

_AMOUNTS = frozenset(
    {"missing", "unknown", "ranges", "received", "duplicates", "inferred_events", "stale_events", "without_record"}
)


READERS = {"spark": "Read by Spark.", "local": "Read by this process, without Spark."}
"""The report's ``read_by`` as a sentence."""


def open_console(stream: IO[str]) -> Console:
    """Return a console that does not wrap lines; its width is fixed unless `stream` is a terminal."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import

    return Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)


def new_table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table without rows, with columns of `texts` and then of `numbers`, which are aligned to the right."""
    from rich.table import Table  # noqa: PLC0415 -- slow to import

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in texts:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_omitted(console: Console, count: int, what: str = "partitions") -> None:
    """Print how many rows a table omits, if any."""
    if count > 0:
        console.print(f"… and {count:,} more {what}; --report lists more.", markup=False)


def show_results(conclusion: Conclusion, stream: IO[str], *, read_by: str | None, with_sentence: bool) -> None:
    """Print a table of the partitions, those with gaps first, what has read them, and the summary."""
    console = open_console(stream)
    if conclusion.partitions:
        console.print(_table(conclusion.partitions))
    print_omitted(console, len(conclusion.partitions) - MAX_ROWS)
    _print_hours(console, conclusion.details.get("lost", {}).get("hours", ()))
    if read_by is not None:
        console.print(READERS[read_by], style="dim")
    if with_sentence:
        console.print(conclusion.sentence, markup=False)


def _print_hours(console: Console, hours: Sequence[dict[str, Any]]) -> None:
    """Print when the most events were lost, if that is known."""
    if not hours:
        return
    table = new_table(["lost in the hour"], ["missing", "of", "percent"])
    worst = sorted(hours, key=lambda hour: -hour["missing"])[:MAX_HOURS]
    for hour in sorted(worst, key=itemgetter("hour")):
        percent = "-" if hour["percent"] is None else f"{hour['percent']:.2f}"
        table.add_row(hour["hour"], f"{hour['missing']:,}", f"{hour['expected']:,}", percent)
    console.print(table)
    print_omitted(console, len(hours) - MAX_HOURS, "hours")


def _table(partitions: Sequence[dict[str, Any]]) -> Table:
    from rich.text import Text  # noqa: PLC0415 -- slow to import

    columns = {key: heading for key, heading in _COLUMNS.items() if key in partitions[0]}
    if all(partition.get("lost_after") is None for partition in partitions):
        columns.pop("lost_after", None)
    table = new_table(["partition"], list(columns.values()))
    for partition in sorted(partitions, key=_is_complete)[:MAX_ROWS]:
        name = Text(f"{partition['topic']}/{partition['partition']}")
        style = "dim" if _is_complete(partition) else ""
        table.add_row(name, *(_cell(key, partition) for key in columns), style=style)
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
