"""Owns the final report: its figures, its sentence and its exit code; pure, and must not know how the work was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from gapless_api.base.exit_codes import ExitCode
from gapless_api.offsets.ranges import subtract_ranges
from gapless_api.wire.resend_report import (
    MAX_DAMAGED,
    LinkTraffic,
    Outcome,
    PartitionFigures,
    PartitionReport,
    ReportHead,
    ResendReport,
    SkippedEntry,
    UnavailableRange,
)
from gapless_api.wire.totals import Totals
from gapless_sender.base.sharding import UNSHARDED
from gapless_sender.replay.account import PartitionAccount, totals
from gapless_sender.source.plan import FILLED, FILTERED, NOT_ASKED_FOR, OUTSIDE, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_api.wire.resend_report import DamagedObject, Ranges, ReadBundle
    from gapless_sender.source.plan import PartitionPlan, Selection

_NAMED_RANGES = 3


@dataclass(frozen=True, slots=True)
class SentRanges:
    """The ranges that were sent, worked out whenever they are iterated: to keep them would double the memory."""

    wanted: OffsetRanges
    """Those that are dealt with."""
    otherwise: tuple[OffsetRanges, ...]
    """Of them, those of which something else became."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        left: Iterator[tuple[int, int]] = self.wanted.pairs(0, len(self.wanted))
        for others in self.otherwise:
            left = subtract_ranges(left, others)
        return left


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The account of one partition, ready for the report and for the way from one process to another."""

    topic: str
    partition: int
    upstream_topic: str
    upstream_partition: int
    totals: Totals
    ranges: dict[str, Ranges]
    """Ranges (inclusive) by what became of them. There may be ten million, so they become text one by one."""
    from_archive: int = 0
    """Planned events that were read from the archive."""

    @property
    def figures(self) -> PartitionFigures:
        """The account without the ranges."""
        return PartitionFigures(
            topic=self.topic,
            partition=self.partition,
            upstream_topic=self.upstream_topic,
            upstream_partition=self.upstream_partition,
            ledger=self.totals,
        )


@dataclass(slots=True)
class Traffic:
    """What went over the link."""

    datagrams: int = 0
    payload_bytes: int = 0
    system_calls: int = 0
    refused: int = 0
    retries: int = 0

    def add(self, other: Traffic) -> None:
        """Take in another process's part."""
        for name in Traffic.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def figures(self) -> LinkTraffic:
        """The figures as the report has them."""
        return LinkTraffic(
            datagrams=self.datagrams,
            payload_bytes=self.payload_bytes,
            system_calls=self.system_calls,
            refused=self.refused,
            retries=self.retries,
        )


@dataclass(slots=True)
class Account:
    """Everything that a resend did."""

    partitions: list[PartitionResult] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    keys_announced: int = 0
    damaged: list[DamagedObject] = field(default_factory=list)
    """Objects of the archive that this run could not read."""
    handled_before: int = 0
    """Events that earlier runs had sent, filtered or filled."""

    def begin(self, sums: Totals) -> None:
        """Note how far earlier runs had come."""
        self.handled_before = sums.handled

    @property
    def totals(self) -> Totals:
        """All partitions together."""
        return sum((partition.totals for partition in self.partitions), Totals())

    @property
    def reports(self) -> list[PartitionReport]:
        """The partitions as the report has them."""
        return [PartitionReport(figures=each.figures, ranges=each.ranges) for each in self.partitions]

    def unavailable(self) -> dict[str, int]:
        """How many events could not be sent, by reason."""
        counts = dict.fromkeys(map(str, Reason), 0)
        for partition in self.partitions:
            for reason in counts:
                counts[reason] += sum(last - first + 1 for first, last in partition.ranges.get(reason, ()))
        return {reason: count for reason, count in counts.items() if count}


def partition_result(plan: PartitionPlan, wanted_count: int, account: PartitionAccount) -> PartitionResult:
    """Sum up one partition."""
    place = plan.place
    kinds = {str(kind): account.ranges(kind) for kind in (FILTERED, FILLED, OUTSIDE, *Reason) if account.counts[kind]}
    otherwise = tuple(filter(len, (*kinds.values(), account.ranges(NOT_ASKED_FOR))))
    shown: dict[str, Ranges] = {}
    if account.sent:
        shown["sent"] = SentRanges(plan.wanted.clip(0, account.cursor - 1), otherwise)
    return PartitionResult(
        place.topic,
        place.partition,
        place.upstream_topic,
        place.upstream_partition,
        totals(plan.wanted, wanted_count, account),
        shown | kinds,
        account.from_archive,
    )


def report(  # noqa: PLR0913 -- the parts of a report
    *,
    outcome: Outcome,
    exit_code: int,
    reason: str | None,
    message: str,
    selection: Selection | None,
    bundle: ReadBundle | None,
    account: Account,
    started: str,
    seconds: float,
) -> ResendReport:
    """Put the report together; there is no `selection` when the work ended before one was made."""
    sums = account.totals
    shard = selection.shard if selection is not None else UNSHARDED
    head = ReportHead(
        outcome=outcome,
        exit_code=int(exit_code),
        reason=reason,
        message=message,
        shard=shard.index,
        shards=shard.count,
        mode=str(selection.mode) if selection is not None else None,
        bundle=bundle,
        started=started,
        seconds=round(seconds, 3),
        events_per_second=round((sums.handled - account.handled_before) / seconds, 1) if seconds > 0 else 0.0,
        ledger=sums,
        unavailable=account.unavailable(),
        from_archive=sum(partition.from_archive for partition in account.partitions),
        damaged=tuple(dict.fromkeys(account.damaged))[:MAX_DAMAGED],
        link=account.traffic.figures,
        keys_announced=account.keys_announced,
        skipped=skipped_entries(selection),
    )
    return ResendReport(head=head, partitions=account.reports)


def skipped_entries(selection: Selection | None) -> tuple[SkippedEntry, ...]:
    """The entries of the bundle that are another cluster's, as report and plan list them."""
    skipped = selection.skipped if selection is not None else ()
    return tuple(SkippedEntry(topic=entry.topic, partition=entry.partition, events=entry.events) for entry in skipped)


def unavailable_ranges(partitions: Iterable[PartitionReport]) -> Iterator[UnavailableRange]:
    """Every range of `partitions` that could not be sent."""
    for partition in partitions:
        place = partition.figures
        for reason in Reason:
            for first, last in partition.ranges.get(reason, ()):
                yield UnavailableRange(
                    topic=place.topic, partition=place.partition, first=first, last=last, reason=str(reason)
                )


def _first_unavailable(account: Account) -> str:
    first = list(islice(unavailable_ranges(account.reports), _NAMED_RANGES + 1))
    shown = [
        f"{entry.topic}/{entry.partition} {entry.first}" + (f"-{entry.last}" if entry.last > entry.first else "")
        for entry in first[:_NAMED_RANGES]
    ]
    return ", ".join(shown) + (", …" if len(first) > _NAMED_RANGES else "")


def verdict_of(account: Account, *, began_complete: bool, listed: bool = True) -> tuple[Outcome, ExitCode, str]:
    """How a resend ended that went through to its end, with the sentence that says so.

    Args:
        account: what it did.
        began_complete: whether nothing was left to do when it began.
        listed: whether there is a report that lists what could not be sent; else the sentence names the first ones.
    """
    sums = account.totals
    if not sums.is_balanced:  # pragma: no cover -- a defect of Gapless; better loud than wrong
        raise AssertionError(f"the account does not add up: {sums}")
    if sums.unavailable:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in account.unavailable().items())
        done = "Nothing was left to send" if began_complete else f"Sent {sums.sent:,} of {sums.planned:,} events"
        return (
            Outcome.INCOMPLETE,
            ExitCode.INCOMPLETE,
            f"{done}; unavailable: {sums.unavailable:,} ({reasons}), "
            + ("listed in the report." if listed else f"first {_first_unavailable(account)}; --report lists all."),
        )
    if began_complete:
        return Outcome.NOTHING_TO_DO, ExitCode.DONE, "Nothing to do: the checkpoint says that everything has been sent."
    if not sums.planned:
        return Outcome.NOTHING_TO_DO, ExitCode.DONE, "Nothing to do: no event was chosen."
    more = [f"{count:,} {name}" for name, count in (("filtered", sums.filtered), ("filled", sums.filled)) if count]
    return (
        Outcome.DONE,
        ExitCode.DONE,
        f"Sent {sums.sent:,} of {sums.planned:,} events{' (' + ', '.join(more) + ' as empty ones)' if more else ''}.",
    )
