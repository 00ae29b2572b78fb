"""Owns how an attempt of a GapScan ends, as a reason and a message, and what is recorded then.

Must not know how a bundle is read or compared, nor what follows.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.references import NotFound
from gapless_operator.common.result import Result
from gapless_operator.engines.endings import (
    failure_of,
    is_waiting_for_log,
    start_deadline,
    without_a_log,
)
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.engines.tracks import must_end
from gapless_operator.scanning.comparison import closing_events, compare, comparison_fields
from gapless_operator.scanning.conditions import after_attempt, compaction_conditions
from gapless_operator.scanning.findings import ResultError, findings_of, gap_topic_of, status_fields
from gapless_operator.scanning.manifests import BundlePlace, source_digest_of, work_digest
from gapless_operator.scanning.scheduling import COMPLETED, PARTIAL, latest_schedule_time
from gapless_operator.scanning.validate import refusal_now

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.gapscan import Engine
    from gapless_api.wire.result_lines import ScanResult
    from gapless_operator.common.conditions import ConditionUpdate
    from gapless_operator.common.plan import Manifest
    from gapless_operator.scanning.context import Context

SOON = timedelta(seconds=0.9)
"""When to continue after something was recorded or stopped."""
_OUTCOMES = {
    "gaps-found": Reason.GAPS_FOUND,
    "nothing-missing": Reason.NOTHING_MISSING,
    "nothing-to-do": Reason.NOTHING_TO_DO,
    "unknown-events": Reason.UNKNOWN_EVENTS,
    "unreadable-records": Reason.UNREADABLE_RECORDS,
    "topic-missing": Reason.TOPIC_MISSING,
    "unreachable": Reason.SOURCE_UNREACHABLE,
    "bad-configuration": Reason.BAD_CONFIGURATION,
    "stopped": Reason.STOPPED,
}
"""By the ``outcome`` of the report."""


class Outcome(NamedTuple):
    """How an attempt has ended."""

    reason: Reason
    message: str
    result: ScanResult | None = None
    """What the scan found, if `reason` is in `COMPLETED`."""


def stop(context: Context) -> Result | None:
    """Stop an attempt that exceeds a deadline or is no longer needed; ``None`` if it may run."""
    last = context.running
    attempt = context.attempt(last.name) if last is not None else None
    if last is None or attempt is None or attempt.ended or attempt.meta.deleting:
        return None
    outcome = outcome_of(attempt, context.scan.spec.engine, context.now) or _reason_to_stop(context, attempt)
    return None if outcome is None else _record(context, last, outcome, attempt)


def conclude(context: Context) -> Result | None:
    """Record how an attempt has ended; ``None`` while it runs or its log is being read."""
    last = context.running
    if last is None:
        return None
    attempt = context.attempt(last.name)
    if attempt is None or (attempt.meta.deleting and not attempt.ended):
        message = f"The {last.engine} {last.name} was deleted before it ended."
        return _record(context, last, Outcome(Reason.STOPPED, message))
    outcome = outcome_of(attempt, context.scan.spec.engine, context.now) if attempt.ended else None
    return None if outcome is None else _record(context, last, outcome, attempt)


def outcome_of(attempt: Attempt, engine: Engine, now: datetime) -> Outcome | None:
    """Return how an attempt has ended, or why it must end; ``None`` while it may run.

    Args:
        attempt: as the engine describes it.
        engine: the deadlines.
        now: the time.
    """
    if attempt.ended:
        return _outcome_of_ended(attempt, now)
    ending = must_end(
        attempt, start_seconds=engine.start_deadline_seconds, run_seconds=engine.run_deadline_seconds, now=now
    )
    return None if ending is None else Outcome(*ending)


def _reason_to_stop(context: Context, attempt: Attempt) -> Outcome | None:
    """Return why a running attempt is no longer needed."""
    scan, places = context.scan, context.places
    if isinstance(places, NotFound):
        return Outcome(places.reason, f"{attempt.name} was stopped. {places.message}")
    if scan.spec.suspend:
        return Outcome(Reason.SUSPENDED, f"{attempt.name} was stopped because spec.suspend is true.")
    if scan.spec.schedule is None:
        if attempt.work != work_digest(scan, places):
            return Outcome(Reason.STOPPED, f"{attempt.name} was stopped because the spec has changed.")
    elif scan.spec.schedule.concurrency_policy == "Replace" and context.due.attempt is not None:
        return Outcome(Reason.STOPPED, f"{attempt.name} was stopped because the next scan is due (Replace).")
    if (refusal := refusal_now(scan, context.program)) is not None:
        return Outcome(refusal.reason, refusal.stops(attempt.name))
    return None


def deadline_of(attempt: Attempt, engine: Engine) -> datetime:
    """Return when `outcome_of` must be called again for a running attempt at the latest."""
    if attempt.phase is Phase.PENDING:
        return start_deadline(attempt, engine.start_deadline_seconds)
    return (attempt.started or attempt.meta.created) + timedelta(seconds=engine.run_deadline_seconds)


def _outcome_of_ended(attempt: Attempt, now: datetime) -> Outcome | None:
    if is_waiting_for_log(attempt, now):
        return None
    driver = attempt.driver
    if driver is None or (not driver.ended and driver.output.result is None):
        return Outcome(*without_a_log(attempt, otherwise=Reason.SCAN_FAILED))
    result = driver.output.result
    is_done = attempt.phase is Phase.SUCCEEDED or driver.exit_code == ExitCode.INCOMPLETE
    if result is not None:
        reason, message = _OUTCOMES.get(result.report.outcome), result.report.message
        if reason is not None and (reason not in COMPLETED or is_done):
            return Outcome(reason, message, result if reason in COMPLETED else None)
    if is_done:
        problem = driver.log_problem or driver.output.result_error
        if result is not None:
            problem = f"the outcome {result.report.outcome[:40]!r} is unknown to this version of the operator"
        return Outcome(
            Reason.RESULT_UNREADABLE, f"Pod {driver.meta.name} succeeded, but its result cannot be read: {problem}."
        )
    return Outcome(*failure_of(driver, otherwise=Reason.SCAN_FAILED))


def _record(context: Context, last: LastAttempt, outcome: Outcome, attempt: Attempt | None = None) -> Result:
    """Record how an attempt ended; the next reconcile deletes what it leaves behind.

    Args:
        context: what is known.
        last: the attempt in the status.
        outcome: how it ended.
        attempt: as its engine describes it; ``None`` when it no longer exists.
    """
    updates: dict[str, Any] = {}
    apply: tuple[Manifest, ...] = ()
    more_conditions: dict[ConditionType, ConditionUpdate] = {}
    more_events: tuple[Event, ...] = ()
    result = outcome.result
    if result is not None:
        before = context.scan.status
        source_digest = source_digest_of(attempt)
        place = BundlePlace.of(attempt, last.name)
        try:
            findings = findings_of(context.scan, last.name, result, place=place, source_digest=source_digest)
        except ResultError as error:
            outcome = Outcome(error.reason, str(error))
        else:
            apply = () if findings.bundle_map is None else (findings.bundle_map,)
            at = (attempt.finished if attempt is not None else None) or context.now
            policy, topic = findings.reported.cleanup_policy, gap_topic_of(result.report)
            is_partial = outcome.reason in PARTIAL
            comparison = compare(before, source_digest, findings.reported, topic=topic, is_partial=is_partial)
            compaction, warnings = compaction_conditions(before.conditions, policy, topic)
            updates = status_fields(findings, before, at) | comparison_fields(
                before,
                comparison,
                source_digest=source_digest,
                missing_events=findings.missing_events,
                is_partial=is_partial,
                policy=policy,
                at=at,
            )
            more_conditions = {ConditionType.GAPS_CLOSED: comparison.update, **compaction}
            more_events = (*closing_events(before.conditions, comparison.update, now=context.now), *warnings)
    finished = (attempt.finished if attempt is not None and attempt.ended else None) or context.now
    ended = last.model_copy(update={"finished": finished, "outcome": str(outcome.reason), "message": outcome.message})
    updates |= {"last_attempt": ended, "progress": None}
    if attempt is not None:
        updates["last_schedule_time"] = latest_schedule_time(context.scan, attempt)
    kind = EventType.NORMAL if outcome.reason in COMPLETED - PARTIAL else EventType.WARNING
    return Result(
        conditions={**after_attempt(context, ended), **more_conditions},
        update=updates,
        apply=apply,
        events=(Event(kind, outcome.reason, outcome.message), *more_events),
        again_after=SOON,
    )
