"""The account of a resend: every requested offset is sent, filtered, filled or unavailable; pure.

Must not know Kafka, the link or files. The equation ``planned = sent + filtered + filled + unavailable + remaining`` is
checked, not assumed: `planned` is counted from the requested offsets, the other side from the batches.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_api.wire.totals import Totals
from gapless_sender.source.plan import FILLED, FILTERED, NOT_REQUESTED, OUTSIDE, RETRIABLE, Reason

Pairs = list[tuple[int, int]]

_KINDS = (FILTERED, FILLED, OUTSIDE, NOT_REQUESTED, *Reason)
"""The outcomes of a requested offset other than being sent."""


def checked_int(value: Any, maximum: int = MAX_OFFSET + 1) -> int:
    """Return an integer of a checkpoint: by default an offset, or the one after the highest. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError("no integer in range")
    return value


@dataclass(slots=True)
class BatchResult:
    """The result of one batch in one partition."""

    cursor: int
    """All requested offsets below are accounted for."""
    sent: int = 0
    exceptions: dict[str, Pairs] = field(default_factory=dict)
    """Ranges (inclusive) that were not sent unchanged, by kind, ascending."""
    from_archive: int = 0
    """Events that were read from the archive."""
    recheck_from: int | None = None
    """Set when the batch rechecked unavailable offsets: from this one up to `cursor`."""

    @property
    def range_count(self) -> int:
        """The number of ranges in `exceptions`."""
        return sum(map(len, self.exceptions.values()))

    def add(self, kind: str, first: int, last: int) -> None:
        """Record the offsets `first` to `last`, both inclusive, as `kind`."""
        pairs = self.exceptions.setdefault(kind, [])
        if pairs and pairs[-1][1] + 1 == first:
            pairs[-1] = (pairs[-1][0], last)
        else:
            pairs.append((first, last))

    def insert(self, kind: str, offset: int) -> None:
        """Record one offset as `kind`, in any order."""
        pairs = self.exceptions.setdefault(kind, [])
        insort(pairs, (offset, offset))

    def as_json(self) -> dict[str, Any]:
        """Return the result as stored in the checkpoint."""
        optional = {"fromArchive": self.from_archive} if self.from_archive else {}
        if self.recheck_from is not None:
            optional["againFrom"] = self.recheck_from
        return {"cursor": self.cursor, "sent": self.sent, **optional, **self.exceptions}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> BatchResult:
        """Parse the output of `as_json`. Raises ValueError or KeyError for anything else."""
        result = cls(checked_int(entry["cursor"]), checked_int(entry["sent"]))
        result.from_archive = checked_int(entry.get("fromArchive", 0))
        if "againFrom" in entry:
            result.recheck_from = checked_int(entry["againFrom"])
        for kind in _KINDS:
            for first, last in entry.get(kind, ()):
                result.add(str(kind), checked_int(first), checked_int(last))
        return result


class PartitionAccount:
    """The account of one partition."""

    def __init__(self) -> None:
        self.cursor = 0
        self.sent = 0
        self.from_archive = 0
        self.counts = dict.fromkeys(map(str, _KINDS), 0)
        self.retry = OffsetRanges()
        """Offsets that were unavailable at the start of this run and are rechecked; see `recheck`."""
        self._ranges = _builders()
        self._rechecked = (0, 0)
        """First offset and end (exclusive) of the rechecked part of `retry`, whose new outcomes are in `_revision`."""
        self._revision = _builders()

    def apply(self, result: BatchResult) -> None:
        """Add the result of a batch."""
        self.sent += result.sent
        self.from_archive += result.from_archive
        if result.recheck_from is None:
            self.cursor = max(self.cursor, result.cursor)
            builders = self._ranges
        else:
            self._withdraw(result.recheck_from, result.cursor)
            builders = self._revision
        for kind, pairs in result.exceptions.items():
            builder = builders[kind]
            for first, last in pairs:
                builder.add(first, last)
                self.counts[kind] += last - first + 1

    def _withdraw(self, first: int, end: int) -> None:
        """Remove the offsets from `first` up to `end` from the unavailable ones."""
        for kind in map(str, RETRIABLE):
            self.counts[kind] -= self._ranges[kind].so_far.clip(first, end - 1).count
        begin, reached = self._rechecked
        self._rechecked = (begin if reached else first, end)

    def ranges(self, kind: str) -> OffsetRanges:
        """Return all offsets of `kind` so far."""
        ranges = self._ranges[kind].so_far
        first, end = self._rechecked
        if not end:
            return ranges
        if kind in RETRIABLE:
            ranges = ranges.clip(0, first - 1) | ranges.clip(end, MAX_OFFSET)
        return ranges | self._revision[kind].so_far

    def recheck(self) -> bool:
        """Request again the offsets that an archive may have now, and return whether there are any.

        They stay unavailable in the account until a batch has rechecked them.
        """
        expired, damaged = (self.ranges(kind) for kind in RETRIABLE)
        self.retry = expired | damaged
        return bool(len(self.retry))

    @property
    def recheck_done(self) -> bool:
        """Whether all of `retry` was rechecked."""
        return not len(self.retry) or self._rechecked[1] > self.retry.last_offset

    def as_results(self, max_ranges: int) -> Iterator[BatchResult]:
        """Return the account as batch results of up to `max_ranges` ranges each, for a new checkpoint."""
        result = BatchResult(self.cursor, self.sent, from_archive=self.from_archive)
        for kind in self._ranges:
            ranges = self.ranges(kind)
            for low in range(0, len(ranges), max_ranges):
                pairs = list(ranges.pairs(low, low + max_ranges))
                if result.range_count + len(pairs) > max_ranges:
                    yield result
                    result = BatchResult(self.cursor)
                result.exceptions[kind] = pairs
        yield result

    def reopen(self) -> bool:
        """Request again what was not yet written, always the last offsets; return whether there were any."""
        kind = str(Reason.NOT_YET_WRITTEN)
        if self._rechecked[1]:
            self._ranges, self._revision = {name: _builder(self.ranges(name)) for name in self._ranges}, _builders()
            self._rechecked = (0, 0)
        not_written = self.ranges(kind)
        if not not_written or not_written.last_offset != self.cursor - 1:
            return False
        self._ranges[kind] = RangesBuilder()
        self.counts[kind] = 0
        self.cursor = not_written.first_offset
        return True

    @property
    def unavailable(self) -> int:
        """Events of the plan that cannot be sent."""
        return sum(self.counts[reason] for reason in Reason)

    @property
    def accounted(self) -> int:
        """The number of requested offsets with an outcome, in the plan or not."""
        return self.sent + sum(self.counts.values())

    @property
    def progress_key(self) -> tuple[int, int]:
        """Grows with every batch, also with one that rechecks."""
        return self.accounted, self.accounted - sum(self.counts[reason] for reason in RETRIABLE)


class Recheck:
    """The account of a pass over the offsets that were unavailable in an earlier run."""

    def __init__(self, account: PartitionAccount) -> None:
        self._account = account
        self.cursor = account.retry.first_offset
        """All offsets of `retry` below are accounted for."""

    def apply(self, result: BatchResult) -> None:
        """Add the result of a batch, marked as a recheck for the other accounts that add it."""
        result.recheck_from = self.cursor
        self.cursor = result.cursor
        self._account.apply(result)


def _builders() -> dict[str, RangesBuilder]:
    return {str(kind): RangesBuilder() for kind in _KINDS}


def _builder(ranges: OffsetRanges) -> RangesBuilder:
    builder = RangesBuilder()
    for first, last in ranges.pairs(0, len(ranges)):
        builder.add(first, last)
    return builder


def totals(requested: OffsetRanges, requested_count: int, account: PartitionAccount) -> Totals:
    """Return the account of one partition.

    Args:
        requested: the offsets to read.
        requested_count: their number, counted once because counting ten million ranges takes time.
        account: what was done.
    """
    not_in_plan = account.counts[OUTSIDE] + account.counts[NOT_REQUESTED]
    index = requested.index_reaching(account.cursor)
    done = index == len(requested)
    return Totals(
        planned=requested_count - not_in_plan,
        sent=account.sent,
        filtered=account.counts[FILTERED],
        filled=account.counts[FILLED],
        unavailable=account.unavailable,
        # At the end of the cursor nothing may remain: a difference is a defect, which `is_balanced` detects.
        remaining=0 if done else requested_count - account.accounted,
        outside_time_range=account.counts[OUTSIDE],
    )
