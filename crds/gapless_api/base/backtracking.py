"""The check that a regular expression does not take exponential time, as ``(a+)+`` does. Pure.

Python's engine tries the ways to match one after the other. Their number doubles with each character if a repetition
can read the same text in two ways: if two different paths lead from a place of the expression back to it.
"""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

_SAMPLE = frozenset(string.printable + "é中")
"""The characters by which sets are compared."""
_CATEGORIES = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_MANY = 20
"""A repetition up to this number counts as one without limit; a smaller one does within another repetition."""
_MAX_PAIRS = 100_000

Place = int
"""The number of a place of the expression that reads one character."""
Pair = tuple[Place, Place]


def is_exponential(text: str) -> bool:
    """Whether the time for a valid expression can double with each character of a name, or is too hard to tell."""
    # The module with the parser has no other name; re.compile would build what is not needed.
    parsed = re._parser.parse(text)  # type: ignore[attr-defined]  # noqa: SLF001
    places = _Places(ignores_case=bool(parsed.state.flags & re.IGNORECASE))
    places.sequence(list(parsed), in_loop=False)
    return places.are_ambiguous()


class _Places:
    """The places that read a character, and which may follow which: the expression's position automaton."""

    def __init__(self, *, ignores_case: bool) -> None:
        self._ignores_case = ignores_case
        self._characters: list[frozenset[str]] = []
        self._edges: Counter[tuple[Place, Place]] = Counter()

    def sequence(self, items: list[Any], *, in_loop: bool) -> tuple[bool, set[Place], set[Place]]:
        """Add items that follow each other; return whether they match nothing, and their first and last places."""
        is_empty, first, last = True, set[Place](), set[Place]()
        for kind, value in items:
            may_be_empty, begins, ends = self._item(str(kind), value, in_loop=in_loop)
            self._connect(last, begins)
            first |= begins if is_empty else set()
            last = (last | ends) if may_be_empty else ends
            is_empty = is_empty and may_be_empty
        return is_empty, first, last

    def _item(self, kind: str, value: Any, *, in_loop: bool) -> tuple[bool, set[Place], set[Place]]:
        if kind in _REPEATS:
            low, high, body = value
            loops = int(high) > _MANY or (in_loop and int(high) > max(int(low), 1))
            is_empty, first, last = self.sequence(list(body), in_loop=in_loop or loops)
            if loops and kind != "POSSESSIVE_REPEAT":
                self._connect(last, first)
            return is_empty or int(low) == 0, first, last
        if kind == "BRANCH":
            parts = [self.sequence(list(part), in_loop=in_loop) for part in value[1]]
            empty, firsts, lasts = zip(*parts, strict=True)
            return any(empty), set().union(*firsts), set().union(*lasts)
        if kind in {"SUBPATTERN", "ATOMIC_GROUP"}:
            return self.sequence(list(value[-1] if kind == "SUBPATTERN" else value), in_loop=in_loop)
        if kind in {"ASSERT", "ASSERT_NOT"}:
            self.sequence(list(value[1]), in_loop=False)
            return True, set(), set()
        found = self._set(kind, value)
        if found is None:
            return True, set(), set()
        self._characters.append(found)
        return False, {len(self._characters) - 1}, {len(self._characters) - 1}

    def _connect(self, ends: set[Place], begins: set[Place]) -> None:
        self._edges.update((end, begin) for end in ends for begin in begins)

    def _set(self, kind: str, value: Any) -> frozenset[str] | None:
        """Return the sampled characters of an item; ``None`` if it reads none."""
        if kind == "ANY":
            return _SAMPLE
        if kind in {"LITERAL", "NOT_LITERAL"}:
            found = self._cases({chr(value)})
            return found if kind == "LITERAL" else _SAMPLE - found
        if kind != "IN":
            return None
        found = frozenset().union(*(self._member(str(name), each) for name, each in value))
        return _SAMPLE - found if str(value[0][0]) == "NEGATE" else found

    def _member(self, name: str, value: Any) -> frozenset[str]:
        if name == "LITERAL":
            return self._cases({chr(value)})
        if name == "RANGE":
            return self._cases({each for each in _SAMPLE if value[0] <= ord(each) <= value[1]})
        category = _CATEGORIES.get(str(value).removeprefix("CATEGORY_"))
        return frozenset(each for each in _SAMPLE if category is not None and re.match(category, each))

    def _cases(self, letters: set[str]) -> frozenset[str]:
        return frozenset(letters | {each.swapcase() for each in letters if self._ignores_case})

    def are_ambiguous(self) -> bool:
        """Whether two different paths with the same text lead from a place back to it."""
        after: dict[Place, set[Place]] = defaultdict(set)
        for one, other in self._edges:
            after[one].add(other)
        loops = _loops(after, len(self._characters))
        if any(count > 1 and loops.get(one, -1) == loops.get(other) for (one, other), count in self._edges.items()):
            return True
        before = self._pairs(after, loops)
        queue = [pair for pair in before if pair[0] == pair[1]]
        while queue and len(before) <= _MAX_PAIRS:
            for pair in before[queue.pop()]:
                if pair[0] != pair[1]:
                    return True  # it comes from equal places, and leads to equal places
        return len(before) > _MAX_PAIRS

    def _pairs(self, after: dict[Place, set[Place]], loops: dict[Place, int]) -> dict[Pair, set[Pair]]:
        """Return the pairs of places that the same text can reach from one place, each with the pairs before it."""
        before: dict[Pair, set[Pair]] = {(place, place): set() for place in loops}
        queue = list(before)
        while queue and len(before) <= _MAX_PAIRS:
            pair = queue.pop()
            loop = loops[pair[0]]
            for one in (place for place in after[pair[0]] if loops.get(place) == loop):
                for other in (place for place in after[pair[1]] if loops.get(place) == loop):
                    if not self._characters[one] & self._characters[other]:
                        continue
                    if (one, other) not in before:
                        before[one, other] = set()
                        queue.append((one, other))
                    before[one, other].add(pair)
        return before


def _loops(after: Mapping[Place, set[Place]], count: int) -> dict[Place, int]:
    """Return the number of the loop of each place that is in one: its strongly connected component (Kosaraju)."""
    before: dict[Place, set[Place]] = defaultdict(set)
    for place, others in after.items():
        for other in others:
            before[other].add(place)
    order: list[Place] = []
    seen: set[Place] = set()
    for start in range(count):
        stack = [(start, False)]
        while stack:
            place, is_done = stack.pop()
            if is_done:
                order.append(place)
            elif place not in seen:
                seen.add(place)
                stack += [(place, True), *((other, False) for other in after.get(place, ()) if other not in seen)]
    loops: dict[Place, int] = {}
    for start in reversed(order):
        queue = [start] if start not in loops else []
        while queue:
            place = queue.pop()
            loops[place] = start
            queue += [other for other in before[place] if other not in loops]
    sizes = Counter(loops.values())
    return {place: loop for place, loop in loops.items() if sizes[loop] > 1 or place in after.get(place, ())}
