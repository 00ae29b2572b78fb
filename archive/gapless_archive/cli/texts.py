"""The format of numbers and tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(count: int) -> str:
    """Format a number of bytes with three digits, such as 1.21 GiB."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 0 if unit == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def ranges_text(ranges: Sequence[tuple[int, int]], max_ranges: int = 3) -> str:
    """Format the first few ranges of offsets, both ends inclusive, and the number of the others."""
    shown = [f"{first:,}" if first == last else f"{first:,}-{last:,}" for first, last in ranges[:max_ranges]]
    if len(ranges) > max_ranges:
        shown.append(f"and {len(ranges) - max_ranges:,} more")
    return "; ".join(shown) or "-"


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Format a table; the first `left` columns and the last one are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.ljust(width) if index < left or index == len(widths) - 1 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
