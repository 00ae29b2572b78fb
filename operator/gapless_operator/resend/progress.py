"""Owns what a Resend's pods say together: counts, percent, pace, the merged report, the ranges that could not be sent.

Must not know where the logs come from, nor what follows. Every figure may be missing or nonsense, for a log can be cut
and an image can be another version; what cannot be read counts as nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from gapless_api.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.v1alpha1.resend import LONGEST_UNAVAILABLE, Progress, ResendPlan, UnavailableRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_operator.observed import ObservedPod

WRITE_EVERY = timedelta(seconds=5)
"""How often progress is written into the status at most."""
_MOST_REPORTED_PARTITIONS, _MOST_REPORTED_RANGES = 1000, 3000
"""What a ConfigMap holds beside everything else: well below 1 MiB."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the events of one shard, or of all."""

    planned: int = 0
    sent: int = 0
    filtered: int = 0
    filled: int = 0
    unavailable: int = 0

    @property
    def done(self) -> int:
        """Events that are dealt with."""
        return self.sent + self.filtered + self.filled + self.unavailable

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Counts:
        """Read the account in a line of progress, or in the ``ledger`` of a report."""
        return cls(*(whole(said.get(field.name)) for field in fields(cls)))


def latest_by_index(pods: Iterable[ObservedPod]) -> dict[int, ObservedPod]:
    """The youngest pod of each shard."""
    return {pod.index: pod for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name))}


def counts_by_index(pods: Iterable[ObservedPod]) -> dict[int, Counts]:
    """How far each shard is that has said anything; a pod that was replaced speaks until its successor does."""
    found: dict[int, Counts] = {}
    for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name)):
        report, progress = pod.output.report, pod.output.progress
        if report is not None and isinstance(ledger := report.get("ledger"), dict) and whole(ledger.get("planned")):
            found[pod.index] = Counts.of(ledger)
        elif progress is not None:
            found[pod.index] = Counts.of(progress)
        elif report is not None:
            found.setdefault(pod.index, Counts())
    return found


def progress_while_sending(
    before: Progress | None, pods: Iterable[ObservedPod], *, now: datetime, at_once: bool = False
) -> Progress | None:
    """What the status should say of the progress; `before` itself while it must not, or need not, change.

    It never goes back: a new attempt goes on from the checkpoints, but not all of its shards say so at once.

    Args:
        before: what the status says.
        pods: of the Job.
        now: the time.
        at_once: whether to say it however little time has passed since the last change.
    """
    found = list(pods)
    counts = counts_by_index(found)
    total = sum(counts.values(), Counts())
    if not counts or (before is not None and _of(before) == total):
        return before
    if before is not None and total.done < _of(before).done:
        return before
    if not at_once and before is not None and before.updated_at is not None and now - before.updated_at < WRITE_EVERY:
        return before
    lines = [line for pod in latest_by_index(found).values() if (line := pod.output.progress) is not None]
    pace = sum(number(line.get("events_per_second")) for line in lines)
    left = max(total.planned - total.done, 0)
    return _progress(total, now, events_per_second=pace, eta_seconds=left / pace if pace > 0 else None)


def final_progress(before: Progress | None, pods: Iterable[ObservedPod], *, now: datetime) -> Progress:
    """The last account; `before` stands in where no log can be read any more."""
    counts = counts_by_index(pods)
    total = sum(counts.values(), Counts())
    if not counts and before is not None:
        total = _of(before)
    return _progress(total, now)


def unavailable_ranges(pods: Iterable[ObservedPod]) -> tuple[UnavailableRange, ...]:
    """The first ranges that could not be sent, in the order of topic, partition and offset."""
    found: list[tuple[str, int, int, int, str]] = []
    for report in _reports(pods):
        for entry in _entries(report, "unavailableRanges"):
            topic, reason = entry.get("topic"), entry.get("reason")
            partition, first, last = entry.get("partition"), entry.get("first"), entry.get("last")
            if not (isinstance(topic, str) and isinstance(reason, str)):
                continue
            if _within(partition, MAX_PARTITION) and _within(first, MAX_OFFSET) and _within(last, MAX_OFFSET):
                found.append((topic[:249], partition, first, last, reason[:64]))
    return tuple(
        UnavailableRange(topic=topic, partition=partition, first=first, last=last, reason=reason)
        for topic, partition, first, last, reason in sorted(found)[:LONGEST_UNAVAILABLE]
    )


def unavailable_reasons(pods: Iterable[ObservedPod]) -> dict[str, int]:
    """How many events could not be sent, by reason."""
    found: dict[str, int] = {}
    for report in _reports(pods):
        reasons = report.get("unavailable")
        for reason, count in reasons.items() if isinstance(reasons, dict) else ():
            found[reason] = found.get(reason, 0) + whole(count)
    return dict(sorted(found.items()))


def merged_report(pods: Iterable[ObservedPod], *, outcome: str, message: str) -> str:
    """The reports of all shards as one JSON text that fits into a ConfigMap; lists are cut and say by how much."""
    found = list(pods)
    reports = _reports(found)
    partitions = [entry for report in reports for entry in _entries(report, "partitions")]
    ranges = [entry for report in reports for entry in _entries(report, "unavailableRanges")]
    omitted = {
        name: sum(whole(report.get(name)) for report in reports)
        for name in ("partitionsOmitted", "unavailableRangesOmitted")
    }
    total = sum(counts_by_index(found).values(), Counts())
    whole_report = {
        "gaplessReport": 1,
        "outcome": outcome,
        "message": message,
        "bundle": bundle_of(found),
        "shards": len(reports),
        "ledger": {field.name: getattr(total, field.name) for field in fields(Counts)},
        "unavailable": unavailable_reasons(found),
        "skipped": _entries(reports[0], "skipped") if reports else [],
        "partitions": partitions[:_MOST_REPORTED_PARTITIONS],
        "partitionsOmitted": omitted["partitionsOmitted"] + max(len(partitions) - _MOST_REPORTED_PARTITIONS, 0),
        "unavailableRanges": ranges[:_MOST_REPORTED_RANGES],
        "unavailableRangesOmitted": omitted["unavailableRangesOmitted"] + max(len(ranges) - _MOST_REPORTED_RANGES, 0),
    }
    return json.dumps(whole_report, indent=1, ensure_ascii=False) + "\n"


def bundle_of(pods: Iterable[ObservedPod]) -> Mapping[str, Any] | None:
    """Which bundle the senders read, as their reports name it."""
    return next((bundle for report in _reports(pods) if isinstance(bundle := report.get("bundle"), dict)), None)


def plan_of(report: Mapping[str, Any]) -> ResendPlan:
    """What a plan Job found."""
    estimate = report.get("estimate")
    estimate = estimate if isinstance(estimate, dict) else {}
    unavailable = report.get("unavailable")
    seconds = estimate.get("seconds")
    return ResendPlan(
        events=whole(report.get("events")),
        ranges=whole(report.get("ranges")),
        bytes=whole(estimate.get("payloadBytes")),
        datagrams=whole(estimate.get("datagrams")),
        estimated_seconds=None if seconds is None else number(seconds),
        unavailable=sum(whole(count) for count in unavailable.values()) if isinstance(unavailable, dict) else 0,
    )


def whole(value: Any) -> int:
    """A count that a log gives; 0 for what is none."""
    return value if _within(value, MAX_OFFSET) else 0


def number(value: Any) -> float:
    """A figure that a log gives, zero or more; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and value >= 0 else 0.0


def _progress(
    total: Counts, now: datetime, *, events_per_second: float | None = None, eta_seconds: float | None = None
) -> Progress:
    left = total.planned - total.done
    return Progress(
        planned=total.planned,
        sent=total.sent,
        filtered=total.filtered,
        filled=total.filled,
        unavailable=total.unavailable,
        percent=100 if left <= 0 else min(100 * total.done // total.planned, 99),
        events_per_second=None if events_per_second is None else round(events_per_second, 1),
        eta_seconds=None if eta_seconds is None else round(eta_seconds, 1),
        updated_at=now,
    )


def _of(progress: Progress) -> Counts:
    return Counts(*(getattr(progress, field.name) for field in fields(Counts)))


def _reports(pods: Iterable[ObservedPod]) -> list[Mapping[str, Any]]:
    """The last report of each shard, by shard."""
    found: dict[int, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name)):
        if pod.output.report is not None:
            found[pod.index] = pod.output.report
    return [report for _, report in sorted(found.items())]


def _entries(report: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = report.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _within(value: Any, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
