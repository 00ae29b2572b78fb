"""What the pods of a Resend report together: counts, percent, rate, the merged report, unavailable ranges.

Must not know where the logs come from, how a message is parsed, nor what follows. A log can be truncated, so a message
may be missing; `message_problem` returns why a message cannot be parsed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.resend_status import MAX_STATUS_UNAVAILABLE_RANGES, Progress, ResendPlan, UnavailableRange
from gapless_api.wire.resend_plan import ShortPlan, moment_of_ms, times_text
from gapless_api.wire.resend_report import MAX_DAMAGED, SHORT_REPORT, LinkTraffic, Outcome, ReadBundle, ShortReport
from gapless_api.wire.totals import Totals
from gapless_operator.common.freshness import FRESH_FOR

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod

WRITE_EVERY = timedelta(seconds=5)
"""How often progress is written into the status at most."""
_MAX_REPORTED_PARTITIONS, _MAX_REPORTED_RANGES = 1000, 3000
"""These keep the report in its ConfigMap well below 1 MiB."""
_COUNTED = ("planned", "sent", "filtered", "filled", "unavailable")
_MAX_TOPIC_LENGTH, _MAX_REASON_LENGTH = 249, 64


def latest_by_index(pods: Iterable[ObservedPod]) -> dict[int, ObservedPod]:
    """Return the newest pod of each shard."""
    return {pod.index: pod for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name))}


def counts_by_index(pods: Iterable[ObservedPod]) -> dict[int, Totals]:
    """Return the counts of each shard that has reported; a replaced pod counts until its successor reports."""
    counts: dict[int, Totals] = {}
    for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name)):
        report, progress = pod.output.report, pod.output.progress
        if report is not None and report.head.ledger.planned:
            counts[pod.index] = report.head.ledger
        elif progress is not None:
            counts[pod.index] = progress.ledger
        elif report is not None:
            counts.setdefault(pod.index, Totals())
    return counts


def message_problem(pods: Iterable[ObservedPod], *events: str) -> str:
    """Return why a message of the newest pod of a shard cannot be parsed, with the pod's name; empty when all can."""
    for _, pod in sorted(latest_by_index(pods).items()):
        problem = next((pod.output.problems[event] for event in events if event in pod.output.problems), "")
        if problem:
            return f"The output of pod {pod.meta.name} cannot be read: {problem}."
    return ""


def log_problem(pods: Iterable[ObservedPod]) -> str:
    """Return which pod's log cannot be read at the moment, since when and why; empty when all can."""
    for _, pod in sorted(latest_by_index(pods).items()):
        if pod.log_problem:
            since = "" if pod.log_problem_since is None else f" since {moment_text(pod.log_problem_since)}"
            return f"The output of pod {pod.meta.name} has been unreadable{since}: {pod.log_problem.rstrip('.')}."
    return ""


def update_progress(
    before: Progress | None, pods: Collection[ObservedPod], *, now: datetime, at_once: bool = False
) -> Progress | None:
    """Return the progress for the status; `before` itself if it is unchanged or was written just before.

    It never decreases: a new attempt continues from the checkpoints, but not all of its shards report at once. After
    two minutes without a change, it has no rate.

    Args:
        before: the progress in the status.
        pods: of the Job.
        now: the time.
        at_once: whether to ignore `WRITE_EVERY`.
    """
    counts = counts_by_index(pods)
    total = sum(counts.values(), Totals())
    if before is not None and before.updated_at is not None and now - before.updated_at >= FRESH_FOR:
        before = without_rate(before)
    if not counts or (before is not None and _counts(before) == _counts(total)):
        return before
    if before is not None and total.done < sum(_counts(before)[1:]):
        return before
    if not at_once and before is not None and before.updated_at is not None and now - before.updated_at < WRITE_EVERY:
        return before
    lines = [line for pod in latest_by_index(pods).values() if (line := pod.output.progress) is not None]
    rate = sum(line.events_per_second for line in lines)
    remaining = max(total.planned - total.done, 0)
    return _progress(total, now, events_per_second=rate, eta_seconds=remaining / rate if rate > 0 else None)


def without_rate(progress: Progress) -> Progress:
    """Return the progress while nothing is sent: without the current rate and what was estimated from it."""
    return progress.model_copy(update={"events_per_second": None, "eta_seconds": None})


def final_progress(before: Progress | None, pods: Iterable[ObservedPod], *, now: datetime) -> Progress:
    """Return the final progress; `before` replaces logs that can no longer be read if it counts more events."""
    total = sum(counts_by_index(pods).values(), Totals())
    if before is not None and total.done < (known := Totals(*_counts(before))).done:
        total = known
    return _progress(total, now)


def unavailable_ranges(pods: Iterable[ObservedPod]) -> tuple[UnavailableRange, ...]:
    """Return the first ranges that could not be sent, in the order of topic, partition and offset."""
    ranges = {
        (entry.topic[:_MAX_TOPIC_LENGTH], entry.partition, entry.first, entry.last, entry.reason[:_MAX_REASON_LENGTH])
        for report in _reports(pods)
        for entry in report.unavailable_ranges
    }
    return tuple(
        UnavailableRange(topic=topic, partition=partition, first=first, last=last, reason=reason)
        for topic, partition, first, last, reason in sorted(ranges)[:MAX_STATUS_UNAVAILABLE_RANGES]
    )


def unavailable_reasons(pods: Iterable[ObservedPod]) -> dict[str, int]:
    """Return how many events could not be sent, by reason."""
    counts: dict[str, int] = {}
    for report in _reports(pods):
        for reason, count in report.head.unavailable.items():
            counts[reason] = counts.get(reason, 0) + count
    return dict(sorted(counts.items()))


def merge_reports(pods: Collection[ObservedPod], *, reason: str, message: str) -> str | None:
    """Merge the reports of all shards into one that fits into a ConfigMap; ``None`` when none can be read."""
    reports = _reports(pods)
    if not reports:
        return None
    heads = [report.head for report in reports]
    seconds = max(head.seconds for head in heads)
    partitions = [entry for report in reports for entry in report.partitions]
    ranges = [entry for report in reports for entry in report.unavailable_ranges]
    merged = ShortReport(
        head=replace(
            heads[0],
            outcome=max((head.outcome for head in heads), key=list(Outcome).index),
            exit_code=max(head.exit_code for head in heads),
            reason=reason,
            message=message,
            shard=None,
            shards=len(reports),
            started=min(head.started for head in heads),
            seconds=seconds,
            events_per_second=round(sum(head.events_per_second for head in heads), 1),
            ledger=sum(counts_by_index(pods).values(), Totals()),
            unavailable=unavailable_reasons(pods),
            from_archive=sum(head.from_archive for head in heads),
            damaged=tuple(dict.fromkeys(entry for head in heads for entry in head.damaged))[:MAX_DAMAGED],
            link=LinkTraffic(
                **{name: sum(getattr(head.link, name) for head in heads) for name in LinkTraffic.__slots__}
            ),
            keys_announced=sum(head.keys_announced for head in heads),
        ),
        skipped_omitted=reports[0].skipped_omitted,
        partitions=tuple(partitions[:_MAX_REPORTED_PARTITIONS]),
        partitions_omitted=sum(report.partitions_omitted for report in reports)
        + max(len(partitions) - _MAX_REPORTED_PARTITIONS, 0),
        unavailable_ranges=tuple(ranges[:_MAX_REPORTED_RANGES]),
        unavailable_ranges_omitted=sum(report.unavailable_ranges_omitted for report in reports)
        + max(len(ranges) - _MAX_REPORTED_RANGES, 0),
    )
    return json.dumps(SHORT_REPORT.to_json(merged), indent=1, ensure_ascii=False) + "\n"


def reported_bundle(pods: Collection[ObservedPod]) -> ReadBundle | None:
    """Return which bundle the senders read, by their reports or the plan."""
    read = [report.head.bundle for report in _reports(pods)] + [short.plan.bundle for short in _plans(pods)]
    return next(filter(None, read), None)


def reported_plan(pods: Iterable[ObservedPod]) -> ResendPlan | None:
    """Return what a plan Job found; ``None`` when its log has no plan."""
    short_plan = next(iter(_plans(pods)), None)
    if short_plan is None:
        return None
    plan = short_plan.plan
    return ResendPlan(
        events=_clamp(plan.events),
        ranges=_clamp(plan.ranges),
        bytes=_clamp(plan.estimate.payload_bytes),
        datagrams=_clamp(plan.estimate.datagrams),
        estimated_seconds=plan.estimate.seconds,
        oldest_event=None if plan.first_event_ms is None else moment_of_ms(plan.first_event_ms),
        expires_from=None if plan.expires_from_ms is None else moment_of_ms(plan.expires_from_ms),
        unavailable=_clamp(sum(plan.unavailable.values())),
    )


def planned_times(pods: Iterable[ObservedPod]) -> str:
    """Say how old the events of a plan are, and until when Kafka keeps them; empty if it has none of them."""
    plan = next((short.plan for short in _plans(pods) if short.plan.from_kafka), None)
    return "" if plan is None else times_text(plan)


def planned_unavailable(pods: Iterable[ObservedPod]) -> str:
    """Describe how many events of a plan cannot be sent, by reason; empty for none."""
    reasons = [short.plan.unavailable for short in _plans(pods)][:1]
    return ", ".join(f"{count:,} {reason}" for counts in reasons for reason, count in sorted(counts.items()) if count)


def _progress(
    total: Totals, now: datetime, *, events_per_second: float | None = None, eta_seconds: float | None = None
) -> Progress:
    remaining = total.planned - total.done
    return Progress(
        **dict(zip(_COUNTED, map(_clamp, _counts(total)), strict=True)),
        percent=100 if remaining <= 0 else min(100 * total.done // total.planned, 99),
        events_per_second=None if events_per_second is None else round(events_per_second, 1),
        eta_seconds=None if eta_seconds is None else round(eta_seconds, 1),
        updated_at=now,
    )


def _counts(totals: Progress | Totals) -> tuple[int, ...]:
    return tuple(getattr(totals, name) for name in _COUNTED)


def _clamp(count: int) -> int:
    """Limit a count to the 64 bits of an integer in a status."""
    return min(count, MAX_OFFSET)


def _reports(pods: Iterable[ObservedPod]) -> list[ShortReport]:
    """Return the last report of each shard, in the order of shards."""
    reports: dict[int, ShortReport] = {}
    for pod in sorted(pods, key=lambda pod: (pod.meta.created, pod.meta.name)):
        if pod.output.report is not None:
            reports[pod.index] = pod.output.report
    return [report for _, report in sorted(reports.items())]


def _plans(pods: Iterable[ObservedPod]) -> list[ShortPlan]:
    return [pod.output.plan for pod in pods if pod.output.plan is not None]
