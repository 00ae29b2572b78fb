"""The final report: its figures, message and exit code; pure, and must not know how the work was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gapless_api.base.exit_codes import ExitCode
from gapless_api.offsets.ranges import OffsetRanges, subtract_ranges
from gapless_api.wire.resend_report import (
    MAX_DAMAGED,
    DamagedObject,
    LinkTraffic,
    Outcome,
    PartitionFigures,
    PartitionReport,
    Ranges,
    ReadBundle,
    ReportHead,
    ResendReport,
    SkippedEntry,
    UnavailableRange,
)
from gapless_api.wire.totals import Totals
from gapless_sender.base.sharding import UNSHARDED
from gapless_sender.link.link_stats import link_warnings
from gapless_sender.replay.account import PartitionAccount, totals
from gapless_sender.source.plan import FILLED, FILTERED, NOT_REQUESTED, OUTSIDE, PartitionPlan, Reason, Selection

_SHOWN_RANGES = 3


@dataclass(frozen=True, slots=True)
class SentRanges:
    """The ranges that were sent, computed whenever they are iterated: storing them would double the memory."""

    accounted: OffsetRanges
    """All ranges with an outcome."""
    exceptions: tuple[OffsetRanges, ...]
    """The part of them that was not sent."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        sent: Iterator[tuple[int, int]] = self.accounted.pairs(0, len(self.accounted))
        for ranges in self.exceptions:
            sent = subtract_ranges(sent, ranges)
        return sent


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The account of one partition, for the report."""

    topic: str
    partition: int
    upstream_topic: str
    upstream_partition: int
    totals: Totals
    ranges: dict[str, Ranges]
    """Ranges (inclusive) by outcome. There may be ten million, so they become text one by one."""
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
    """That the kernel accepted."""
    payload_bytes: int = 0
    system_calls: int = 0
    refused: int = 0
    retries: int = 0
    interface_drops: int = 0
    """Datagrams, of any program, that the interface has dropped meanwhile."""

    @property
    def left_interface(self) -> int:
        """Datagrams that have left the interface, at least: all of its drops may have been of this program."""
        return max(0, self.datagrams - self.interface_drops)

    def add(self, other: Traffic) -> None:
        """Add the traffic of another process."""
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
            left_interface=self.left_interface,
            interface_drops=self.interface_drops,
        )


@dataclass(slots=True)
class Account:
    """The account of a complete resend."""

    partitions: list[PartitionResult] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    interface: str = ""
    """That datagrams left through; empty if they stayed on this machine."""
    keys_announced: int = 0
    damaged: list[DamagedObject] = field(default_factory=list)
    """Objects of the archive that this run could not read."""
    handled_before: int = 0
    """Events that earlier runs had sent, filtered or filled."""

    def begin(self, sums: Totals) -> None:
        """Record what earlier runs did."""
        self.handled_before = sums.handled

    @property
    def totals(self) -> Totals:
        """All partitions together."""
        return sum((partition.totals for partition in self.partitions), Totals())

    @property
    def reports(self) -> list[PartitionReport]:
        """The partitions as the report has them."""
        return [PartitionReport(figures=each.figures, ranges=each.ranges) for each in self.partitions]

    @property
    def warnings(self) -> list[str]:
        """The sentences about datagrams that may not have arrived although the kernel accepted them."""
        return link_warnings(
            accepted=self.traffic.datagrams,
            refused=self.traffic.refused,
            interface_drops=self.traffic.interface_drops,
            interface=self.interface,
        )

    def unavailable(self) -> dict[str, int]:
        """Return how many events could not be sent, by reason."""
        counts = dict.fromkeys(map(str, Reason), 0)
        for partition in self.partitions:
            for reason in counts:
                counts[reason] += sum(last - first + 1 for first, last in partition.ranges.get(reason, ()))
        return {reason: count for reason, count in counts.items() if count}


def partition_result(plan: PartitionPlan, requested_count: int, account: PartitionAccount) -> PartitionResult:
    """Return the account of one partition in the form of the report."""
    partition = plan.partition
    kinds = {str(kind): account.ranges(kind) for kind in (FILTERED, FILLED, OUTSIDE, *Reason) if account.counts[kind]}
    exceptions = tuple(filter(len, (*kinds.values(), account.ranges(NOT_REQUESTED))))
    shown: dict[str, Ranges] = {}
    if account.sent:
        shown["sent"] = SentRanges(plan.requested.clip(0, account.cursor - 1), exceptions)
    return PartitionResult(
        partition.topic,
        partition.partition,
        partition.upstream_topic,
        partition.upstream_partition,
        totals(plan.requested, requested_count, account),
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
    """Build the report; `selection` is ``None`` when the resend ended before there was one."""
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
        skipped=selection.skipped if selection is not None else (),
    )
    return ResendReport(head=head, partitions=account.reports)


def unavailable_ranges(partitions: Iterable[PartitionReport]) -> Iterator[UnavailableRange]:
    """Yield every range of `partitions` that could not be sent."""
    for partition in partitions:
        figures = partition.figures
        for reason in Reason:
            for first, last in partition.ranges.get(reason, ()):
                yield UnavailableRange(
                    topic=figures.topic, partition=figures.partition, first=first, last=last, reason=str(reason)
                )


def _first_unavailable(account: Account) -> str:
    first = list(islice(unavailable_ranges(account.reports), _SHOWN_RANGES + 1))
    shown = [
        f"{entry.topic}/{entry.partition} {entry.first}" + (f"-{entry.last}" if entry.last > entry.first else "")
        for entry in first[:_SHOWN_RANGES]
    ]
    return ", ".join(shown) + (", …" if len(first) > _SHOWN_RANGES else "")


def left_out_text(outside_time_range: int, skipped: Sequence[SkippedEntry]) -> str:
    """Return the part of a sentence about what was requested and not selected; empty for nothing."""
    parts = []
    if outside_time_range:
        parts.append(f"{outside_time_range:,} outside the time range")
    if skipped:
        parts.append(
            f"{sum(entry.events for entry in skipped):,} of {len(skipped):,} entries of the bundle outside the "
            f"partition window"
        )
    return f"; left out: {', '.join(parts)}" if parts else ""


def final_outcome(
    account: Account, *, was_complete: bool, has_report: bool = True, skipped: Sequence[SkippedEntry] = ()
) -> tuple[Outcome, ExitCode, str]:
    """Return the outcome of a resend that ran to its end, with its exit code and message.

    Args:
        account: what it did.
        was_complete: whether a checkpoint had recorded it as complete.
        skipped: entries of the bundle outside the partition window.
        has_report: whether a report lists what could not be sent; else the message names the first ranges.
    """
    sums = account.totals
    left_out = left_out_text(sums.outside_time_range, skipped)
    if not sums.is_balanced:  # pragma: no cover -- a defect of Gapless; better loud than wrong
        raise AssertionError(f"the account does not add up: {sums}")
    empty = [f"{count:,} {name}" for name, count in (("filtered", sums.filtered), ("filled", sums.filled)) if count]
    note = f" ({', '.join(empty)} as empty ones)" if empty else ""
    sent = f"Sent {sums.sent:,} of {sums.planned:,} events{note}"
    if sums.unavailable:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in account.unavailable().items())
        done = "Nothing left to send" if was_complete else sent
        return (
            Outcome.INCOMPLETE,
            ExitCode.INCOMPLETE,
            f"{done}{left_out}; unavailable: {sums.unavailable:,} ({reasons}), "
            + ("listed in the report." if has_report else f"first {_first_unavailable(account)}; --report lists all."),
        )
    if was_complete:
        return (
            Outcome.NOTHING_TO_DO,
            ExitCode.DONE,
            f"Nothing to do: everything was sent, according to the checkpoint{left_out}.",
        )
    if not sums.planned:
        return Outcome.NOTHING_TO_DO, ExitCode.DONE, f"Nothing to do: no events are selected{left_out}."
    return Outcome.DONE, ExitCode.DONE, f"{sent}{left_out}."
