"""Owns the account of a resend: every wanted offset is sent, filtered, filled or unavailable; pure.

Must not know Kafka, the link or files. The equation ``planned = sent + filtered + filled + unavailable + remaining`` is
checked here, not assumed: `planned` is counted from the wanted offsets, the other side from what was done.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_api.wire.totals import Totals
from gapless_sender.source.plan import FILLED, FILTERED, NOT_ASKED_FOR, OUTSIDE, RETRIABLE, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

Pairs = list[tuple[int, int]]

_KINDS = (FILTERED, FILLED, OUTSIDE, NOT_ASKED_FOR, *Reason)
"""What can become of a wanted offset beside being sent."""


def whole(found: Any, most: int = MAX_OFFSET + 1) -> int:
    """A number of a checkpoint: by default an offset, or the one behind the highest. Raises ValueError."""
    if type(found) is not int or not 0 <= found <= most:
        raise ValueError("no integer in range")
    return found


@dataclass(slots=True)
class BatchResult:
    """What one batch did in one partition."""

    cursor: int
    """All wanted offsets below are accounted for."""
    sent: int = 0
    exceptions: dict[str, Pairs] = field(default_factory=dict)
    """Ranges (inclusive) that were not sent as they are, by kind, ascending."""
    from_archive: int = 0
    """Events that were read from the archive."""
    again_from: int | None = None
    """Set when the batch looked again at offsets, from this one up to `cursor`, that were unavailable before."""

    @property
    def size(self) -> int:
        """How many ranges of `exceptions` there are."""
        return sum(map(len, self.exceptions.values()))

    def add(self, kind: str, first: int, last: int) -> None:
        """Note the offsets `first` to `last`, both inclusive, as `kind`."""
        pairs = self.exceptions.setdefault(kind, [])
        if pairs and pairs[-1][1] + 1 == first:
            pairs[-1] = (pairs[-1][0], last)
        else:
            pairs.append((first, last))

    def insert(self, kind: str, offset: int) -> None:
        """Note one offset as `kind`, whatever order it comes in."""
        pairs = self.exceptions.setdefault(kind, [])
        insort(pairs, (offset, offset))

    def as_json(self) -> dict[str, Any]:
        """The result as the checkpoint keeps it."""
        more = {"fromArchive": self.from_archive} if self.from_archive else {}
        if self.again_from is not None:
            more["againFrom"] = self.again_from
        return {"cursor": self.cursor, "sent": self.sent, **more, **self.exceptions}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> BatchResult:
        """Read what `as_json` gave. Raises ValueError or KeyError for anything else."""
        result = cls(whole(found["cursor"]), whole(found["sent"]), from_archive=whole(found.get("fromArchive", 0)))
        if "againFrom" in found:
            result.again_from = whole(found["againFrom"])
        for kind in _KINDS:
            for first, last in found.get(kind, ()):
                result.add(str(kind), whole(first), whole(last))
        return result


class PartitionAccount:
    """The account of one partition."""

    def __init__(self) -> None:
        self.cursor = 0
        self.sent = 0
        self.from_archive = 0
        self.counts = dict.fromkeys(map(str, _KINDS), 0)
        self.again = OffsetRanges()
        """Offsets that were unavailable at the start of this run and are looked at again; see `look_again`."""
        self._ranges = _builders()
        self._revised = (0, 0)
        """From where to where (exclusive) `again` was looked at; what became of it is in `_revision`."""
        self._revision = _builders()

    def apply(self, result: BatchResult) -> None:
        """Take in what a batch did."""
        self.sent += result.sent
        self.from_archive += result.from_archive
        if result.again_from is None:
            self.cursor = max(self.cursor, result.cursor)
            builders = self._ranges
        else:
            self._withdraw(result.again_from, result.cursor)
            builders = self._revision
        for kind, pairs in result.exceptions.items():
            builder = builders[kind]
            for first, last in pairs:
                builder.add(first, last)
                self.counts[kind] += last - first + 1

    def _withdraw(self, first: int, end: int) -> None:
        """Forget that offsets from `first` up to `end` were unavailable."""
        for kind in map(str, RETRIABLE):
            self.counts[kind] -= self._ranges[kind].so_far.clip(first, end - 1).count
        begin, reached = self._revised
        self._revised = (begin if reached else first, end)

    def ranges(self, kind: str) -> OffsetRanges:
        """All offsets of `kind` so far."""
        found = self._ranges[kind].so_far
        first, end = self._revised
        if not end:
            return found
        if kind in RETRIABLE:
            found = found.clip(0, first - 1) | found.clip(end, MAX_OFFSET)
        return found | self._revision[kind].so_far

    def look_again(self) -> bool:
        """Want again what an archive may have now, and say whether there is any.

        It stays unavailable in the account until a batch has looked at it.
        """
        expired, damaged = (self.ranges(kind) for kind in RETRIABLE)
        self.again = expired | damaged
        return bool(len(self.again))

    @property
    def has_looked_again(self) -> bool:
        """Whether nothing of `again` is left."""
        return not len(self.again) or self._revised[1] > self.again.last_offset

    def as_results(self, most_ranges: int) -> Iterator[BatchResult]:
        """The account as batch results of up to so many ranges each, to begin a new checkpoint with."""
        result = BatchResult(self.cursor, self.sent, from_archive=self.from_archive)
        for kind in self._ranges:
            ranges = self.ranges(kind)
            for low in range(0, len(ranges), most_ranges):
                pairs = list(ranges.pairs(low, low + most_ranges))
                if result.size + len(pairs) > most_ranges:
                    yield result
                    result = BatchResult(self.cursor)
                result.exceptions[kind] = pairs
        yield result

    def reopen(self) -> bool:
        """Want again what was not yet written, always the last of what was wanted; say whether there was any."""
        kind = str(Reason.NOT_YET_WRITTEN)
        if self._revised[1]:
            self._ranges, self._revision = {name: _builder(self.ranges(name)) for name in self._ranges}, _builders()
            self._revised = (0, 0)
        again = self.ranges(kind)
        if not again or again.last_offset != self.cursor - 1:
            return False
        self._ranges[kind] = RangesBuilder()
        self.counts[kind] = 0
        self.cursor = again.first_offset
        return True

    @property
    def unavailable(self) -> int:
        """Events of the plan that cannot be sent."""
        return sum(self.counts[reason] for reason in Reason)

    @property
    def accounted(self) -> int:
        """Wanted offsets that are dealt with, in the plan or not."""
        return self.sent + sum(self.counts.values())

    @property
    def reached(self) -> tuple[int, int]:
        """Grows with every batch, also with one that looks again."""
        return self.accounted, self.accounted - sum(self.counts[reason] for reason in RETRIABLE)


class SecondLook:
    """The part of an account that a run does which looks again at what was unavailable before."""

    def __init__(self, account: PartitionAccount) -> None:
        self._account = account
        self.cursor = account.again.first_offset
        """All offsets of `again` below are accounted for."""

    def apply(self, result: BatchResult) -> None:
        """Take in what a batch did, and mark it so that others take it in alike."""
        result.again_from = self.cursor
        self.cursor = result.cursor
        self._account.apply(result)


def _builders() -> dict[str, RangesBuilder]:
    return {str(kind): RangesBuilder() for kind in _KINDS}


def _builder(ranges: OffsetRanges) -> RangesBuilder:
    builder = RangesBuilder()
    for first, last in ranges.pairs(0, len(ranges)):
        builder.add(first, last)
    return builder


def totals(wanted: OffsetRanges, wanted_count: int, account: PartitionAccount) -> Totals:
    """The account of one partition.

    Args:
        wanted: the offsets that are walked through.
        wanted_count: how many they are, counted once because counting ten million ranges takes its time.
        account: what was done.
    """
    not_in_plan = account.counts[OUTSIDE] + account.counts[NOT_ASKED_FOR]
    index = wanted.index_reaching(account.cursor)
    done = index == len(wanted)
    return Totals(
        planned=wanted_count - not_in_plan,
        sent=account.sent,
        filtered=account.counts[FILTERED],
        filled=account.counts[FILLED],
        unavailable=account.unavailable,
        # When the cursor says "done", nothing may be left over: a difference is then a defect, and `holds` says so.
        remaining=0 if done else wanted_count - account.accounted,
        outside_time_range=account.counts[OUTSIDE],
    )
