"""How the bins of a map become shapes of an SVG; must not know offsets or HTML."""

from __future__ import annotations

from collections.abc import Sequence

SHADES = (
    (1, "up to 1 %"),
    (10, "up to 10 %"),
    (50, "up to 50 %"),
    (99, "more than half"),
    (100, "all missing"),
)
"""The highest percentage of each shade, and its name in the legend; the last shade means that all are missing."""
HEIGHTS = (8, 14, 20, 26, 32)
"""The height of the bar of each shade, so that the map does not depend on colours."""
TRACK = 32
"""The height of the drawing."""


def shade(missing: int, size: int) -> int | None:
    """Return the index in `SHADES` for a bin of `size` offsets; ``None`` if none is missing."""
    if missing <= 0:
        return None
    if missing >= size:
        return len(SHADES) - 1
    return next((index for index, (percent, _) in enumerate(SHADES[:3]) if 100 * missing <= percent * size), 3)


def bars(missing: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, str]]:
    """Return an SVG path for each shade that occurs; adjacent bins of a shade are one bar."""
    paths: list[list[str]] = [[] for _ in SHADES]
    for begin, end, index in _runs([shade(*part) for part in zip(missing, sizes, strict=True)]):
        width = end - begin
        paths[index].append(f"M{begin} {TRACK - HEIGHTS[index]}h{width}V{TRACK}h-{width}z")
    return [(index, "".join(path)) for index, path in enumerate(paths) if path]


def strip(inferred: Sequence[int]) -> list[tuple[str, str]]:
    """Return the left edge and the width, in percent, of the parts with inferred offsets."""
    runs = _runs([0 if part else None for part in inferred])
    return [(_percent(begin, len(inferred)), _percent(end - begin, len(inferred))) for begin, end, _ in runs]


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole, 3):g}%"


def _runs(shades: Sequence[int | None]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for at, index in enumerate(shades):
        if index is None:
            continue
        if runs and runs[-1][1:] == (at, index):
            runs[-1] = (runs[-1][0], at + 1, index)
        else:
            runs.append((at, at + 1, index))
    return runs
