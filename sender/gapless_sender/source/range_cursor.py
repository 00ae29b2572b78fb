"""Owns the cursor through the wanted offsets of a partition: picks them from what was read, tells what is missing.

Must not know Kafka's client, only the messages that it hands over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gapless_sender.source.plan import FILLED, NOT_ASKED_FOR, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_sender.link.transmitter import BatchSize
    from gapless_sender.source.plan import PartitionPlan

_HOLES_AT_ONCE = 20_000
_NO_LIMIT = 2**63
Hole = tuple[int, int, str]
"""Wanted offsets (first and last, inclusive) that are absent, and what becomes of them: a `Reason` when they cannot be
sent, ``FILLED`` when empty events take their place, ``NOT_ASKED_FOR`` when only an open end wanted them."""


class Chunk(NamedTuple):
    """What one step through a partition found; everything wanted below `upto` is now known."""

    offsets: list[int]
    values: list[bytes]
    """One for each offset; a null value is empty, as the live sender sends it."""
    holes: list[Hole]
    outside: list[tuple[int, int]]
    """Wanted offsets whose record is outside the time range."""
    upto: int
    from_archive: bool = False
    """Whether the values come from the archive."""


class Message(Protocol):
    """A record, as Kafka's client hands it over."""

    def offset(self) -> int:
        """Its offset."""

    def value(self) -> bytes | None:
        """Its value."""

    def timestamp(self) -> tuple[int, int]:
        """The kind of its timestamp, and milliseconds since 1970 or -1."""


def parts(chunk: Chunk, size: Callable[[], BatchSize]) -> Iterator[Chunk]:
    """Cut `chunk` into parts that each hold no more events and bytes than `size` says when it is their turn.

    A part holds one event at least. Holes that are filled become empty events, so they count as such.
    """
    while True:
        end = _end_of_part(chunk, *size())
        if end is None:
            yield chunk
            return
        before, chunk = _cut_at(chunk, end)
        yield before


def _end_of_part(chunk: Chunk, most_events: int, most_bytes: int) -> int | None:
    """The offset that the first part of `chunk` must not hold any more; ``None`` when it may hold everything."""
    empty = [range(first, last + 1) for first, last, outcome in chunk.holes if outcome == FILLED]
    if len(chunk.offsets) + sum(map(len, empty)) <= most_events and sum(map(len, chunk.values)) <= most_bytes:
        return None
    events = zip(chunk.offsets, map(len, chunk.values), strict=True)
    count = size = 0
    for offset, length in merge(events, zip(chain.from_iterable(empty), repeat(0))):
        if count and (count >= most_events or size + length > most_bytes):
            return offset
        count, size = count + 1, size + length
    return None


def _cut_at(chunk: Chunk, offset: int) -> tuple[Chunk, Chunk]:
    """What `chunk` says below `offset`, and the rest."""
    index = bisect_left(chunk.offsets, offset)
    holes, outside = chunk.holes, chunk.outside
    before = Chunk(
        chunk.offsets[:index],
        chunk.values[:index],
        [(first, min(last, offset - 1), outcome) for first, last, outcome in holes if first < offset],
        [(first, min(last, offset - 1)) for first, last in outside if first < offset],
        offset,
        chunk.from_archive,
    )
    after = Chunk(
        chunk.offsets[index:],
        chunk.values[index:],
        [(max(first, offset), last, outcome) for first, last, outcome in holes if last >= offset],
        [(max(first, offset), last) for first, last in outside if last >= offset],
        chunk.upto,
        chunk.from_archive,
    )
    return before, after


class RangeCursor:
    """The cursor through the wanted ranges: takes what was read and tells what was stepped over; knows no Kafka."""

    def __init__(  # noqa: PLR0913 -- what is wanted, and what is filled
        self,
        plan: PartitionPlan,
        cursor: int,
        *,
        first_ms: int | None = None,
        last_ms: int | None = None,
        fill: Collection[Reason] = (),
        most_filled: Callable[[], int] = lambda: _NO_LIMIT,
    ) -> None:
        """Begin at `cursor`, with the timestamps from `first_ms` to `last_ms`, both inclusive.

        Holes of the reasons in `fill` are filled, `most_filled` of them in one chunk: it takes time and memory.
        """
        self._plan = plan
        self._fill = frozenset(fill)
        self._most_filled = most_filled
        wanted = self._wanted = plan.wanted
        self._index = wanted.index_reaching(cursor)
        self._cursor = cursor
        self.limits_time = first_ms is not None or last_ms is not None
        """Whether timestamps decide what is wanted."""
        self._first_ms = first_ms if first_ms is not None else -(2**63)
        self._last_ms = last_ms if last_ms is not None else 2**63

    @property
    def done(self) -> bool:
        """Whether every wanted offset is behind us."""
        return self._index >= len(self._wanted)

    @property
    def target(self) -> int:
        """The next wanted offset. Raises IndexError when there is none."""
        return max(self._wanted[self._index].first, self._cursor) if not self.done else 2**63

    def rest(self, last: int) -> OffsetRanges:
        """What is still wanted up to `last`, inclusive."""
        return self._wanted.clip(self._cursor, last)

    def excludes(self, oldest_ms: int | None, newest_ms: int | None) -> bool:
        """Whether the time range has no record whose timestamp, if it has one, is from `oldest_ms` to `newest_ms`."""
        if self._first_ms < 0:  # Records without a timestamp are in a range without a start.
            return False
        return oldest_ms is None or newest_ms is None or newest_ms < self._first_ms or oldest_ms > self._last_ms

    def reach(self, position: int, most_between: int, enough: int) -> int:
        """The last wanted offset that can be read from `position` on without a hole of more than `most_between`.

        It looks no further than `enough` offsets.
        """
        index = self._index
        last = self._wanted[index].last
        while last - position < enough and index + 1 < len(self._wanted):
            following = self._wanted[index + 1]
            if following.first - last - 1 > most_between:
                break
            last = following.last
            index += 1
        return last

    def _most_at_once(self, reason: Reason) -> int:
        """How many offsets that are absent for `reason` one chunk may have."""
        return self._most_filled() if reason in self._fill else _NO_LIMIT

    def _holes(self, reason: Reason, absent: Iterable[tuple[int, int]]) -> list[Hole]:
        """Decide what becomes of offsets that are `absent` for `reason`; nobody else does."""
        outcome = FILLED if reason in self._fill else reason
        if outcome is not Reason.NON_EXISTENT or self._plan.open_from is None:
            return [(first, last, outcome) for first, last in absent]
        holes: list[Hole] = []
        for first, last in absent:
            asked, others = self._plan.missed(first, last)
            holes += [(begin, end, outcome) for begin, end in asked]
            holes += [(begin, end, NOT_ASKED_FOR) for begin, end in others]
        return holes

    def pass_over(self, last: int | None, reason: Reason) -> Iterator[Chunk]:
        """Everything still wanted up to `last` (inclusive; ``None`` for all) is not there."""
        for absent in self._passed(_NO_LIMIT if last is None else last, self._most_at_once(reason)):
            yield Chunk([], [], self._holes(reason, absent), [], self._cursor)

    def pass_outside(self, last: int) -> Iterator[Chunk]:
        """Everything still wanted up to `last`, inclusive, has a record outside the time range."""
        for outside in self._passed(last, _NO_LIMIT):
            yield Chunk([], [], [], outside, self._cursor)

    def _passed(self, limit: int, most: int) -> Iterator[list[tuple[int, int]]]:
        """Pass over everything still wanted up to `limit`, some at a time: up to `most` offsets."""
        while not self.done and self.target <= limit:
            passed: list[tuple[int, int]] = []
            room = most
            # There may be ten million ranges, so they are not looked up one by one.
            for begin, whole in self._wanted.pairs(self._index, self._index + _HOLES_AT_ONCE):
                first = max(begin, self._cursor)
                upto = min(whole, limit, first + room - 1)
                if upto < first:
                    break
                passed.append((first, upto))
                room -= upto - first + 1
                self._advance(upto, whole)
            yield passed

    def take(self, records: list[Message]) -> Iterator[Chunk]:
        """Pick what is wanted out of `records`, which follow each other in the partition."""
        first_read, last_read = records[0].offset(), records[-1].offset()
        if self.done or self.target > last_read:
            return
        most_between = self._most_at_once(Reason.NON_EXISTENT)
        if first_read - self.target > most_between:
            yield from self.pass_over(first_read - 1, Reason.NON_EXISTENT)
        if last_read - first_read + 1 == len(records):
            yield self._pick(records, None)
            return
        numbers = [record.offset() for record in records]
        start = 0
        for index in range(1, len(numbers)):
            if numbers[index] - numbers[index - 1] > most_between:
                yield self._pick(records[start:index], numbers[start:index])
                yield from self.pass_over(numbers[index] - 1, Reason.NON_EXISTENT)
                start = index
        yield self._pick(records[start:], numbers[start:])

    def _pick(self, records: list[Message], numbers: list[int] | None) -> Chunk:
        """Pick out of `records`, whose offsets are `numbers`; ``None`` if there is no hole between them."""
        first_read, last_read = records[0].offset(), records[-1].offset()
        offsets: list[int] = []
        picked: list[Message] = []
        absent: list[tuple[int, int]] = []
        while not self.done:
            first = self.target
            if first > last_read:
                break
            whole = self._wanted[self._index].last
            last = min(whole, last_read)
            if numbers is None:
                if first < first_read:
                    absent.append((first, min(last, first_read - 1)))
                start = max(first, first_read)
                if start <= last:
                    picked += records[start - first_read : last - first_read + 1]
                    offsets += range(start, last + 1)
            else:
                low, high = bisect_left(numbers, first), bisect_right(numbers, last)
                found = numbers[low:high]
                picked += records[low:high]
                offsets += found
                _add_gaps(first, last, found, absent)
            self._advance(last, whole)
        outside: list[tuple[int, int]] = []
        if self.limits_time and picked:
            kept = [self._first_ms <= record.timestamp()[1] <= self._last_ms for record in picked]
            outside = [(offset, offset) for offset, keep in zip(offsets, kept, strict=True) if not keep]
            offsets = [offset for offset, keep in zip(offsets, kept, strict=True) if keep]
            picked = [record for record, keep in zip(picked, kept, strict=True) if keep]
        values: list[Any] = [record.value() for record in picked]
        if None in values:
            values = [value or b"" for value in values]
        return Chunk(offsets, values, self._holes(Reason.NON_EXISTENT, absent), outside, self._cursor)

    def _advance(self, last: int, whole: int) -> None:
        self._cursor = last + 1
        if last >= whole:
            self._index += 1


def _add_gaps(first: int, last: int, found: list[int], gaps: list[tuple[int, int]]) -> None:
    """Add to `gaps` what of `first` to `last` is not among `found` (ascending)."""
    expected = first
    for offset in found:
        if offset > expected:
            gaps.append((expected, offset - 1))
        expected = offset + 1
    if expected <= last:
        gaps.append((expected, last))
