"""The cursor through the requested offsets of a partition: selects them from records, and finds absent ones.

Must not know Kafka's client, only the form of its messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import merge
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gapless_sender.source.plan import FILLED, NOT_REQUESTED, PartitionPlan, Reason

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_sender.link.transmitter import BatchSize

_RANGES_PER_CHUNK = 20_000
_UNLIMITED = 2**63
AbsentRange = tuple[int, int, str]
"""Requested offsets (first and last, inclusive) that are absent, and their outcome: a `Reason` when they cannot be
sent, ``FILLED`` when empty events replace them, ``NOT_REQUESTED`` when only an open range covers them."""


class Chunk(NamedTuple):
    """The result of one step through a partition: every requested offset below `upto` is accounted for."""

    offsets: list[int]
    values: list[bytes]
    """One for each offset; a null value is empty, as the live sender sends it."""
    absent: list[AbsentRange]
    outside: list[tuple[int, int]]
    """Requested offsets whose record is outside the time range."""
    upto: int
    from_archive: bool = False
    """Whether the values come from the archive."""


class Message(Protocol):
    """A record in the form of Kafka's client."""

    def offset(self) -> int:
        """Its offset."""

    def value(self) -> bytes | None:
        """Its value."""

    def timestamp(self) -> tuple[int, int]:
        """The kind of its timestamp, and milliseconds since 1970 or -1."""


def split_chunk(chunk: Chunk, size: Callable[[], BatchSize]) -> Iterator[Chunk]:
    """Split `chunk` into parts of at most `size` events and bytes; `size` is called before each part.

    A part has at least one event. Absent offsets that are filled become empty events, so they count as events.
    """
    while True:
        end = _end_of_part(chunk, *size())
        if end is None:
            yield chunk
            return
        before, chunk = _split_at(chunk, end)
        yield before


def _end_of_part(chunk: Chunk, max_events: int, max_bytes: int) -> int | None:
    """Return the offset before which the first part of `chunk` ends; ``None`` when all of it fits."""
    empty = [range(first, last + 1) for first, last, outcome in chunk.absent if outcome == FILLED]
    if len(chunk.offsets) + sum(map(len, empty)) <= max_events and sum(map(len, chunk.values)) <= max_bytes:
        return None
    events = zip(chunk.offsets, map(len, chunk.values), strict=True)
    count = size = 0
    for offset, length in merge(events, zip(chain.from_iterable(empty), repeat(0))):
        if count and (count >= max_events or size + length > max_bytes):
            return offset
        count, size = count + 1, size + length
    return None


def _split_at(chunk: Chunk, offset: int) -> tuple[Chunk, Chunk]:
    """Split `chunk` into what is below `offset` and the rest."""
    index = bisect_left(chunk.offsets, offset)
    before = Chunk(
        chunk.offsets[:index],
        chunk.values[:index],
        [(first, min(last, offset - 1), outcome) for first, last, outcome in chunk.absent if first < offset],
        [(first, min(last, offset - 1)) for first, last in chunk.outside if first < offset],
        offset,
        chunk.from_archive,
    )
    after = Chunk(
        chunk.offsets[index:],
        chunk.values[index:],
        [(max(first, offset), last, outcome) for first, last, outcome in chunk.absent if last >= offset],
        [(max(first, offset), last) for first, last in chunk.outside if last >= offset],
        chunk.upto,
        chunk.from_archive,
    )
    return before, after


class RangeCursor:
    """The position in the requested ranges of a partition; each step forward yields a `Chunk`."""

    def __init__(  # noqa: PLR0913 -- the plan, its time range, and what is filled
        self,
        plan: PartitionPlan,
        cursor: int,
        *,
        first_ms: int | None = None,
        last_ms: int | None = None,
        fill: Collection[Reason] = (),
        max_filled: Callable[[], int] = lambda: _UNLIMITED,
    ) -> None:
        """Begin at `cursor`; select the timestamps from `first_ms` to `last_ms`, both inclusive.

        Absent offsets with a reason in `fill` are filled, at most `max_filled` in one chunk: it takes time and memory.
        """
        self._plan = plan
        self._fill = frozenset(fill)
        self._max_filled = max_filled
        requested = self._requested = plan.requested
        self._index = requested.index_reaching(cursor)
        self._cursor = cursor
        self.limits_time = first_ms is not None or last_ms is not None
        """Whether records are selected by timestamp."""
        self._first_ms = first_ms if first_ms is not None else -(2**63)
        self._last_ms = last_ms if last_ms is not None else 2**63

    @property
    def done(self) -> bool:
        """Whether every requested offset is accounted for."""
        return self._index >= len(self._requested)

    @property
    def target(self) -> int:
        """The next requested offset; 2^63 when there is none."""
        return max(self._requested[self._index].first, self._cursor) if not self.done else 2**63

    def remaining(self, last: int) -> OffsetRanges:
        """Return the requested offsets that are not yet accounted for, up to `last` (inclusive)."""
        return self._requested.clip(self._cursor, last)

    def excludes(self, oldest_ms: int | None, newest_ms: int | None) -> bool:
        """Return whether no record with a timestamp from `oldest_ms` to `newest_ms`, or without one, is selected."""
        if self._first_ms < 0:  # Records without a timestamp are in a range without a start.
            return False
        return oldest_ms is None or newest_ms is None or newest_ms < self._first_ms or oldest_ms > self._last_ms

    def end_of_read(self, position: int, max_gap: int, max_offsets: int) -> int:
        """Return the last requested offset to read from `position` on without a gap of more than `max_gap` offsets.

        Looks at most `max_offsets` ahead.
        """
        index = self._index
        last = self._requested[index].last
        while last - position < max_offsets and index + 1 < len(self._requested):
            following = self._requested[index + 1]
            if following.first - last - 1 > max_gap:
                break
            last = following.last
            index += 1
        return last

    def _max_absent(self, reason: Reason) -> int:
        """Return how many offsets that are absent for `reason` one chunk may have."""
        return self._max_filled() if reason in self._fill else _UNLIMITED

    def _absent_ranges(self, reason: Reason, absent: Iterable[tuple[int, int]]) -> list[AbsentRange]:
        """Return the outcome of offsets that are `absent` for `reason`; it is decided nowhere else."""
        outcome = FILLED if reason in self._fill else reason
        if outcome is not Reason.NON_EXISTENT or self._plan.open_from is None:
            return [(first, last, outcome) for first, last in absent]
        ranges: list[AbsentRange] = []
        for first, last in absent:
            by_number, others = self._plan.split_absent(first, last)
            ranges += [(begin, end, outcome) for begin, end in by_number]
            ranges += [(begin, end, NOT_REQUESTED) for begin, end in others]
        return ranges

    def mark_absent(self, last: int | None, reason: Reason) -> Iterator[Chunk]:
        """Mark all remaining offsets up to `last` (inclusive; ``None`` for all) as absent for `reason`."""
        for absent in self._skip(_UNLIMITED if last is None else last, self._max_absent(reason)):
            yield Chunk([], [], self._absent_ranges(reason, absent), [], self._cursor)

    def mark_outside_time(self, last: int) -> Iterator[Chunk]:
        """Mark all remaining offsets up to `last`, inclusive, as records outside the time range."""
        for outside in self._skip(last, _UNLIMITED):
            yield Chunk([], [], [], outside, self._cursor)

    def _skip(self, last: int, max_offsets: int) -> Iterator[list[tuple[int, int]]]:
        """Skip all remaining offsets up to `last`, at most `max_offsets` at a time."""
        while not self.done and self.target <= last:
            skipped: list[tuple[int, int]] = []
            room = max_offsets
            # There may be ten million ranges, so they are not looked up one by one.
            for begin, range_last in self._requested.pairs(self._index, self._index + _RANGES_PER_CHUNK):
                first = max(begin, self._cursor)
                upto = min(range_last, last, first + room - 1)
                if upto < first:
                    break
                skipped.append((first, upto))
                room -= upto - first + 1
                self._advance(upto, range_last)
            yield skipped

    def select(self, records: list[Message]) -> Iterator[Chunk]:
        """Select the requested offsets from `records`, which are consecutive in the partition."""
        first_read, last_read = records[0].offset(), records[-1].offset()
        if self.done or self.target > last_read:
            return
        max_absent = self._max_absent(Reason.NON_EXISTENT)
        if first_read - self.target > max_absent:
            yield from self.mark_absent(first_read - 1, Reason.NON_EXISTENT)
        if last_read - first_read + 1 == len(records):
            yield self._select(records, None)
            return
        numbers = [record.offset() for record in records]
        start = 0
        for index in range(1, len(numbers)):
            if numbers[index] - numbers[index - 1] > max_absent:
                yield self._select(records[start:index], numbers[start:index])
                yield from self.mark_absent(numbers[index] - 1, Reason.NON_EXISTENT)
                start = index
        yield self._select(records[start:], numbers[start:])

    def _select(self, records: list[Message], numbers: list[int] | None) -> Chunk:
        """Select from `records` with the offsets `numbers`; ``None`` if no offset between them is absent."""
        first_read, last_read = records[0].offset(), records[-1].offset()
        offsets: list[int] = []
        selected: list[Message] = []
        absent: list[tuple[int, int]] = []
        while not self.done:
            first = self.target
            if first > last_read:
                break
            range_last = self._requested[self._index].last
            last = min(range_last, last_read)
            if numbers is None:
                if first < first_read:
                    absent.append((first, min(last, first_read - 1)))
                start = max(first, first_read)
                if start <= last:
                    selected += records[start - first_read : last - first_read + 1]
                    offsets += range(start, last + 1)
            else:
                low, high = bisect_left(numbers, first), bisect_right(numbers, last)
                existing = numbers[low:high]
                selected += records[low:high]
                offsets += existing
                _add_absent(first, last, existing, absent)
            self._advance(last, range_last)
        outside: list[tuple[int, int]] = []
        if self.limits_time and selected:
            inside = [self._first_ms <= record.timestamp()[1] <= self._last_ms for record in selected]
            outside = [(offset, offset) for offset, keep in zip(offsets, inside, strict=True) if not keep]
            offsets = [offset for offset, keep in zip(offsets, inside, strict=True) if keep]
            selected = [record for record, keep in zip(selected, inside, strict=True) if keep]
        values: list[Any] = [record.value() for record in selected]
        if None in values:
            values = [value or b"" for value in values]
        return Chunk(offsets, values, self._absent_ranges(Reason.NON_EXISTENT, absent), outside, self._cursor)

    def _advance(self, last: int, range_last: int) -> None:
        self._cursor = last + 1
        if last >= range_last:
            self._index += 1


def _add_absent(first: int, last: int, existing: list[int], absent: list[tuple[int, int]]) -> None:
    """Add to `absent` the offsets from `first` to `last` that are not in `existing` (ascending)."""
    expected = first
    for offset in existing:
        if offset > expected:
            absent.append((expected, offset - 1))
        expected = offset + 1
    if expected <= last:
        absent.append((expected, last))
