"""Owns how parts of a map become shapes of an SVG; must not know offsets or HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHADES = (
    (1, "up to 1 %"),
    (10, "up to 10 %"),
    (50, "up to 50 %"),
    (99, "more than half"),
    (100, "all missing"),
)
"""The highest percentage of each shade, and how the legend names it; the one before the last ends below all."""
HEIGHTS = (8, 14, 20, 26, 32)
"""How high the bar of each shade is, so that colour is never all there is."""
TRACK = 32
"""How high the drawing of what is missing is."""


def shade(missing: int, size: int) -> int | None:
    """The index in `SHADES` of a part with `missing` of `size` offsets; ``None`` when nothing is missing."""
    if missing <= 0:
        return None
    if missing >= size:
        return len(SHADES) - 1
    return next((index for index, (percent, _) in enumerate(SHADES[:3]) if 100 * missing <= percent * size), 3)


def bars(missing: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, str]]:
    """One SVG path of each shade that occurs; neighbours of a shade are one bar."""
    paths: list[list[str]] = [[] for _ in SHADES]
    for begin, end, index in _runs([shade(*part) for part in zip(missing, sizes, strict=True)]):
        width = end - begin
        paths[index].append(f"M{begin} {TRACK - HEIGHTS[index]}h{width}V{TRACK}h-{width}z")
    return [(index, "".join(path)) for index, path in enumerate(paths) if path]


def strip(inferred: Sequence[int]) -> list[tuple[str, str]]:
    """Left edge and width, in percent of the whole, of the parts where something was inferred."""
    runs = _runs([0 if part else None for part in inferred])
    return [(_percent(begin, len(inferred)), _percent(end - begin, len(inferred))) for begin, end, _ in runs]


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole, 3):g}%"


def _runs(shades: Sequence[int | None]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for place, index in enumerate(shades):
        if index is None:
            continue
        if found and found[-1][1:] == (place, index):
            found[-1] = (found[-1][0], place + 1, index)
        else:
            found.append((place, place + 1, index))
    return found
