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
from gapless_sender.source.plan import FILLED, FILTERED, NOT_ASKED_FOR, OUTSIDE, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

Pairs = list[tuple[int, int]]

_KINDS = (FILTERED, FILLED, OUTSIDE, NOT_ASKED_FOR, *Reason)
"""What can become of a wanted offset beside being sent."""


def whole(found: Any, most: int = MAX_OFFSET + 1) -> int:
    """A number of a checkpoint: by default an offset, or the one behind the highest. Raises ValueError."""
    if type(found) is not int or not 0 <= found <= most:
        raise ValueError("no whole number in range")
    return found


@dataclass(slots=True)
class BatchResult:
    """What one batch did in one partition."""

    cursor: int
    """All wanted offsets below are accounted for."""
    sent: int = 0
    exceptions: dict[str, Pairs] = field(default_factory=dict)
    """Ranges (inclusive) that were not sent as they are, by kind, ascending."""

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
        return {"cursor": self.cursor, "sent": self.sent, **self.exceptions}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> BatchResult:
        """Read what `as_json` gave. Raises ValueError or KeyError for anything else."""
        result = cls(whole(found["cursor"]), whole(found["sent"]))
        for kind in _KINDS:
            for first, last in found.get(kind, ()):
                result.add(str(kind), whole(first), whole(last))
        return result


class PartitionAccount:
    """The account of one partition."""

    def __init__(self) -> None:
        self.cursor = 0
        self.sent = 0
        self.counts = dict.fromkeys(map(str, _KINDS), 0)
        self._ranges = {str(kind): RangesBuilder() for kind in _KINDS}

    def apply(self, result: BatchResult) -> None:
        """Take in what a batch did."""
        self.cursor = max(self.cursor, result.cursor)
        self.sent += result.sent
        for kind, pairs in result.exceptions.items():
            builder = self._ranges[kind]
            for first, last in pairs:
                builder.add(first, last)
                self.counts[kind] += last - first + 1

    def ranges(self, kind: str) -> OffsetRanges:
        """All offsets of `kind` so far."""
        return self._ranges[kind].so_far

    def as_results(self, most_ranges: int) -> Iterator[BatchResult]:
        """The account as batch results of up to so many ranges each, to begin a new checkpoint with."""
        result = BatchResult(self.cursor, self.sent)
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
