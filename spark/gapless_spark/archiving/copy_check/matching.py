"""Owns how two sequences of records are laid side by side where they differ; must not know how records are read.

Records that are alike are matched first, those that occur once in both before all others, so that a lost record is one
difference and not as many as there are records behind it. What is left between two matches is paired by what it has in
common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Match = tuple[int, int]
    """The indexes of two records."""

_MOST_COMBINATIONS = 65_536
"""Of records without one that occurs once; more are not worth the time."""
_SURE = 8
"""So many records alike in a row are no accident."""


class Fingerprint(NamedTuple):
    """What a record holds, in few bytes; two are equal when the records are alike in all that is compared."""

    key: object
    value: object
    headers: object
    timestamp: object
    timestamp_type: object


class Pairing(NamedTuple):
    """What stands side by side."""

    a: int | None
    """The index in one sequence; ``None`` for a record that only the other one has."""
    b: int | None
    is_moved: bool = False


class Layout(NamedTuple):
    """How the beginnings of two sequences stand side by side."""

    pairings: list[Pairing]
    """In the order of both, but for those that have moved."""
    used_a: int
    """How many records of the one are among them; further ones stand behind."""
    used_b: int


_NEARLY: tuple[Callable[[Fingerprint], Any], ...] = (
    lambda one: (one.key, one.value, one.headers),
    lambda one: (one.key, one.value),
    lambda one: (one.key, one.timestamp, one.headers),
    lambda one: (one.value, one.timestamp),
)
"""What records have in common that are paired although they are not alike, the best first."""


def lay_out(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], *, is_all: bool, is_last_try: bool = False
) -> Layout | None:
    """Lay two sequences side by side whose first records are not alike.

    Args:
        a: records of the one copy.
        b: those of the other.
        is_all: whether nothing comes behind them.
        is_last_try: whether a layout is needed although more records may come.

    Returns:
        The layout up to the last match that is sure; ``None`` when there is none, and more records may help.
    """
    matches = matched(a, b)
    if is_all:
        end_a, end_b = len(a), len(b)
    else:
        matches = matches[: _sure(matches, min(len(a), len(b)), is_last_try=is_last_try)]
        if matches:
            end_a, end_b = matches[-1][0] + 1, matches[-1][1] + 1
        elif is_last_try:
            end_a = end_b = min(len(a), len(b))
        else:
            return None
    return Layout(_pairings(a, b, [*matches, (end_a, end_b)]), end_a, end_b)


def _sure(matches: Sequence[Match], count: int, *, is_last_try: bool) -> int:
    """How many of the matches are sure: up to the last of several in a row, or all if they are many."""
    row = 0
    sure = 0
    for number, (at_a, at_b) in enumerate(matches):
        row = row + 1 if number and matches[number - 1] == (at_a - 1, at_b - 1) else 1
        if row >= _SURE:
            sure = number + 1
    if sure or not (is_last_try or 2 * len(matches) >= count):
        return sure
    return len(matches)


def matched(a: Sequence[Any], b: Sequence[Any]) -> list[Match]:
    """The indexes of equal elements, ascending in both sequences."""
    found: list[Match] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:
        low_a, high_a, low_b, high_b = todo.pop()
        while low_a < high_a and low_b < high_b and a[low_a] == b[low_b]:
            found.append((low_a, low_b))
            low_a, low_b = low_a + 1, low_b + 1
        while low_a < high_a and low_b < high_b and a[high_a - 1] == b[high_b - 1]:
            high_a, high_b = high_a - 1, high_b - 1
            found.append((high_a, high_b))
        if low_a == high_a or low_b == high_b:
            continue
        anchors = _anchors(a, b, (low_a, high_a), (low_b, high_b))
        if anchors:
            found += anchors
            for at_a, at_b in anchors:
                todo.append((low_a, at_a, low_b, at_b))
                low_a, low_b = at_a + 1, at_b + 1
            todo.append((low_a, high_a, low_b, high_b))
        elif (high_a - low_a) * (high_b - low_b) <= _MOST_COMBINATIONS:
            found += [(low_a + x, low_b + y) for x, y in _longest_common(a[low_a:high_a], b[low_b:high_b])]
    return sorted(found)


def _anchors(a: Sequence[Any], b: Sequence[Any], span_a: Match, span_b: Match) -> list[Match]:
    """Elements that occur once in either part, as many as keep their order."""
    places_a, places_b = _single(a, *span_a), _single(b, *span_b)
    common = [(place, places_b[element]) for element, place in places_a.items() if element in places_b]
    # The longest ascending subsequence: each element goes on the first pile whose top is higher.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(common):
        pile = bisect_left(tops, place)
        if pile == len(tops):
            tops.append(place)
            piles.append(number)
        else:
            tops[pile], piles[pile] = place, number
        before.append(piles[pile - 1] if pile else -1)
    kept: list[Match] = []
    number = piles[-1] if piles else -1
    while number >= 0:
        kept.append(common[number])
        number = before[number]
    return kept[::-1]


def _single(elements: Sequence[Any], low: int, high: int) -> dict[Any, int]:
    counts = Counter(elements[low:high])
    return {element: low + at for at, element in enumerate(elements[low:high]) if counts[element] == 1}


def _longest_common(a: Sequence[Any], b: Sequence[Any]) -> list[Match]:
    """The longest common subsequence, by its table."""
    lengths = [[0] * (len(b) + 1)]
    for one in reversed(a):
        below, row = lengths[-1], [0]
        for at in range(len(b) - 1, -1, -1):
            row.append(below[at + 1] + 1 if one == b[at] else max(row[-1], below[at]))
        lengths.append(row[::-1])
    lengths.reverse()
    found: list[Match] = []
    x = y = 0
    while x < len(a) and y < len(b):
        if a[x] == b[y]:
            found.append((x, y))
            x, y = x + 1, y + 1
        elif lengths[x + 1][y] >= lengths[x][y + 1]:
            x += 1
        else:
            y += 1
    return found


def _pairings(a: Sequence[Fingerprint], b: Sequence[Fingerprint], matches: Iterable[Match]) -> list[Pairing]:
    """What stands side by side at the matches, of which the last is the end, and between them."""
    blocks: list[tuple[list[int], list[int]]] = []
    ends = list(matches)
    low_a = low_b = 0
    for at_a, at_b in ends:
        blocks.append((list(range(low_a, at_a)), list(range(low_b, at_b))))
        low_a, low_b = at_a + 1, at_b + 1
    moved = _moved(a, b, blocks)
    gone = set(moved.values())
    found: list[Pairing] = []
    for match, (left_a, left_b) in zip(ends, blocks, strict=True):
        rest_a = [place for place in left_a if place not in moved]
        rest_b = [place for place in left_b if place not in gone]
        paired = _paired(a, b, rest_a, rest_b, 0)
        for place in filter(moved.__contains__, left_a):
            at = next((at for at, one in enumerate(paired) if one.a is not None and one.a > place), len(paired))
            paired.insert(at, Pairing(place, moved[place], is_moved=True))
        found += paired
        if match != ends[-1]:
            found.append(Pairing(*match))
    return found


def _moved(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], blocks: Iterable[tuple[list[int], list[int]]]
) -> dict[int, int]:
    """Records that have no match, and are in both all the same."""
    left: dict[Fingerprint, list[int]] = {}
    listed = list(blocks)
    for places, _ in listed:
        for place in places:
            left.setdefault(a[place], []).append(place)
    found: dict[int, int] = {}
    for _, places in listed:
        for place in places:
            if left.get(b[place]):
                found[left[b[place]].pop(0)] = place
    return found


def _paired(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], left_a: list[int], left_b: list[int], level: int
) -> list[Pairing]:
    """Pair records between two matches by what they have in common."""
    if not left_a or not left_b:
        return [*(Pairing(place, None) for place in left_a), *(Pairing(None, place) for place in left_b)]
    if level == len(_NEARLY):
        if len(left_a) == len(left_b):
            return [Pairing(*both) for both in zip(left_a, left_b, strict=True)]
        return [*(Pairing(place, None) for place in left_a), *(Pairing(None, place) for place in left_b)]
    nearly = _NEARLY[level]
    pairs = matched([nearly(a[place]) for place in left_a], [nearly(b[place]) for place in left_b])
    found: list[Pairing] = []
    low_a = low_b = 0
    for at_a, at_b in [*pairs, (len(left_a), len(left_b))]:
        found += _paired(a, b, left_a[low_a:at_a], left_b[low_b:at_b], level + 1)
        if at_a < len(left_a) or at_b < len(left_b):
            found.append(Pairing(left_a[at_a], left_b[at_b]))
        low_a, low_b = at_a + 1, at_b + 1
    return found
