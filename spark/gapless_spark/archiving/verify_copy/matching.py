"""The alignment of two sequences of records that differ; must not know how records are read.

Equal records are matched first, starting with those that occur once in both sequences, so that a lost record is one
difference and does not shift all records after it. Records between two matches are paired by similarity.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    Match = tuple[int, int]
    """The indexes of two records."""

_MAX_COMBINATIONS = 65_536
"""Limit for the table of the longest common subsequence, which is used if no record occurs exactly once."""
_SURE_RUN = 8
"""A match of this many consecutive records is not a coincidence."""


class Fingerprint(NamedTuple):
    """The content of a record in few bytes; fingerprints are equal if all compared parts of the records are equal."""

    key: bytes | None
    value: object
    headers: object
    timestamp: int | None
    timestamp_type: object


class Pairing(NamedTuple):
    """Two records that are compared with each other, or one that only one sequence has."""

    a: int | None
    """The index in one sequence; ``None`` for a record that only the other sequence has."""
    b: int | None
    is_moved: bool = False


class AlignedRecords(NamedTuple):
    """The alignment of the beginnings of two sequences."""

    pairings: list[Pairing]
    """In the order of both sequences, except for records that have moved."""
    used_a: int
    """The number of records of sequence a in the pairings; further ones follow."""
    used_b: int


_SIMILARITIES: tuple[Callable[[Fingerprint], Any], ...] = (
    lambda record: (record.key, record.value, record.headers),
    lambda record: (record.key, record.value),
    lambda record: (record.key, record.timestamp, record.headers),
    lambda record: (record.value, record.timestamp),
)
"""The parts in which different records must agree to be paired, the most similar first."""


def align(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], *, is_all: bool, is_last_try: bool = False
) -> AlignedRecords | None:
    """Align two sequences whose first records differ.

    Args:
        a: records of one copy.
        b: records of the other copy.
        is_all: whether no further records follow.
        is_last_try: whether to align in any case, although further records follow.

    Returns:
        The alignment up to the last certain match; ``None`` if there is none, and more records may help.
    """
    matches = match_elements(a, b)
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
    return AlignedRecords(_pairings(a, b, [*matches, (end_a, end_b)]), end_a, end_b)


def _sure(matches: Sequence[Match], count: int, *, is_last_try: bool) -> int:
    """Return how many matches are certain: up to the last long run, or all if there are many."""
    row = 0
    sure = 0
    for number, (at_a, at_b) in enumerate(matches):
        row = row + 1 if number and matches[number - 1] == (at_a - 1, at_b - 1) else 1
        if row >= _SURE_RUN:
            sure = number + 1
    if sure or not (is_last_try or 2 * len(matches) >= count):
        return sure
    return len(matches)


def match_elements(a: Sequence[Any], b: Sequence[Any]) -> list[Match]:
    """Return the indexes of equal elements, ascending in both sequences."""
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
        elif (high_a - low_a) * (high_b - low_b) <= _MAX_COMBINATIONS:
            found += [(low_a + x, low_b + y) for x, y in _longest_common(a[low_a:high_a], b[low_b:high_b])]
    return sorted(found)


def _anchors(a: Sequence[Any], b: Sequence[Any], span_a: Match, span_b: Match) -> list[Match]:
    """Return the most elements that occur once in both parts and keep their order."""
    places_a, places_b = _single(a, *span_a), _single(b, *span_b)
    common = [(index, places_b[element]) for element, index in places_a.items() if element in places_b]
    # The longest increasing subsequence: each element goes on the first pile whose top is higher.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, index) in enumerate(common):
        pile = bisect_left(tops, index)
        if pile == len(tops):
            tops.append(index)
            piles.append(number)
        else:
            tops[pile], piles[pile] = index, number
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
    """Return the longest common subsequence, by dynamic programming."""
    lengths = [[0] * (len(b) + 1)]
    for record in reversed(a):
        below, row = lengths[-1], [0]
        for at in range(len(b) - 1, -1, -1):
            row.append(below[at + 1] + 1 if record == b[at] else max(row[-1], below[at]))
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
    """Return the pairings at the matches, of which the last is the end, and between them."""
    blocks: list[tuple[list[int], list[int]]] = []
    ends = list(matches)
    low_a = low_b = 0
    for at_a, at_b in ends:
        blocks.append((list(range(low_a, at_a)), list(range(low_b, at_b))))
        low_a, low_b = at_a + 1, at_b + 1
    moved = _moved(a, b, blocks)
    moved_b = set(moved.values())
    found: list[Pairing] = []
    for match, (left_a, left_b) in zip(ends, blocks, strict=True):
        rest_a = [index for index in left_a if index not in moved]
        rest_b = [index for index in left_b if index not in moved_b]
        paired = _paired(a, b, rest_a, rest_b, 0)
        for index in filter(moved.__contains__, left_a):
            later = (at for at, pairing in enumerate(paired) if pairing.a is not None and pairing.a > index)
            at = next(later, len(paired))
            paired.insert(at, Pairing(index, moved[index], is_moved=True))
        found += paired
        if match != ends[-1]:
            found.append(Pairing(*match))
    return found


def _moved(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], blocks: Iterable[tuple[list[int], list[int]]]
) -> dict[int, int]:
    """Find records without a match that are in both sequences nevertheless."""
    left: dict[Fingerprint, list[int]] = {}
    listed = list(blocks)
    for indexes, _ in listed:
        for index in indexes:
            left.setdefault(a[index], []).append(index)
    found: dict[int, int] = {}
    for _, indexes in listed:
        for index in indexes:
            if left.get(b[index]):
                found[left[b[index]].pop(0)] = index
    return found


def _paired(
    a: Sequence[Fingerprint], b: Sequence[Fingerprint], left_a: list[int], left_b: list[int], level: int
) -> list[Pairing]:
    """Pair records between two matches by similarity."""
    if not left_a or not left_b:
        return [*(Pairing(index, None) for index in left_a), *(Pairing(None, index) for index in left_b)]
    if level == len(_SIMILARITIES):
        if len(left_a) == len(left_b):
            return [Pairing(*both) for both in zip(left_a, left_b, strict=True)]
        return [*(Pairing(index, None) for index in left_a), *(Pairing(None, index) for index in left_b)]
    similarity = _SIMILARITIES[level]
    pairs = match_elements([similarity(a[index]) for index in left_a], [similarity(b[index]) for index in left_b])
    found: list[Pairing] = []
    low_a = low_b = 0
    for at_a, at_b in [*pairs, (len(left_a), len(left_b))]:
        found += _paired(a, b, left_a[low_a:at_a], left_b[low_b:at_b], level + 1)
        if at_a < len(left_a) or at_b < len(left_b):
            found.append(Pairing(left_a[at_a], left_b[at_b]))
        low_a, low_b = at_a + 1, at_b + 1
    return found
