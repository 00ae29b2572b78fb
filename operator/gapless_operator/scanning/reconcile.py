"""The reconciliation of a GapScan; see `gapless_operator.lifecycle` for the order of its steps.

Before an attempt starts, the last one is shown, the spec is validated, and the state of an audit must be free.
Must not know how a bundle is read or compared.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Event, EventType, Plan
from gapless_operator.common.result import Result
from gapless_operator.engines.endings import Ending, failure_of, without_a_log
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.lifecycle.reconcile import Kind, reconcile, with_times
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    is_replaced,
    is_suspended,
    reference_is_gone,
    would_be_refused,
)
from gapless_operator.scanning.attempts import (
    WRITE_EVERY,
    queue,
    show_last_attempt,
    start,
    superseded_objects,
    watch,
)
from gapless_operator.scanning.comparison import closing_events, compare, comparison_fields
from gapless_operator.scanning.conditions import after_attempt, compaction_conditions
from gapless_operator.scanning.context import Context, context_of
from gapless_operator.scanning.findings import ResultError, findings_of, gap_topic_of, status_fields
from gapless_operator.scanning.manifests import BundlePlace, source_digest_of, work_digest
from gapless_operator.scanning.scheduling import COMPLETED, PARTIAL, latest_schedule_time
from gapless_operator.scanning.validate import Validated, refusal_now, validate

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.refusal import Refusal
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved


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
_NOTHING = Result(conditions={})


def end_of(_context: Context, attempt: Attempt) -> Ending:
    """Return how an attempt has ended whose log was read."""
    driver = attempt.driver
    if driver is None or (not driver.ended and driver.output.result is None):
        return without_a_log(attempt, otherwise=Reason.SCAN_FAILED)
    result = driver.output.result
    is_done = attempt.phase is Phase.SUCCEEDED or driver.exit_code == ExitCode.INCOMPLETE
    if result is not None:
        reason = _OUTCOMES.get(result.report.outcome)
        if reason is not None and (reason not in COMPLETED or is_done):
            return Ending(reason, result.report.message)
    if is_done:
        problem = driver.log_problem or driver.output.result_error
        if result is not None:
            problem = f"the outcome {result.report.outcome[:40]!r} is unknown to this version of the operator"
        return Ending(
            Reason.RESULT_UNREADABLE, f"Pod {driver.meta.name} succeeded, but its result cannot be read: {problem}."
        )
    return failure_of(driver, otherwise=Reason.SCAN_FAILED)


def record(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    """Record how an attempt ended, and what it found.

    Args:
        context: what is known.
        ending: how it ended.
        last: the same as it is recorded.
        attempt: as its engine describes it; ``None`` when it no longer exists.
    """
    found = _found(context, ending, last, attempt)
    if isinstance(found, ResultError):
        ending = Ending(found.reason, str(found))
        last = last.model_copy(update={"outcome": str(ending.reason), "message": ending.message})
        found = _NOTHING
    update = {**found.update, "last_attempt": last, "progress": None}
    if attempt is not None:
        update["last_schedule_time"] = latest_schedule_time(context.resource, attempt)
    kind = EventType.NORMAL if ending.reason in COMPLETED - PARTIAL else EventType.WARNING
    return Result(
        conditions={**after_attempt(context, last), **found.conditions},
        update=update,
        apply=found.apply,
        events=(Event(kind, ending.reason, ending.message), *found.events),
    )


def _found(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result | ResultError:
    """Return what follows from the result of an attempt; nothing if it has none, an error if it cannot be used."""
    result = attempt.driver.output.result if attempt is not None and attempt.driver is not None else None
    if attempt is None or result is None or ending.reason not in COMPLETED:
        return _NOTHING
    before, source_digest = context.resource.status, source_digest_of(attempt)
    place = BundlePlace.of(attempt, last.name)
    try:
        findings = findings_of(context.resource, last.name, result, place=place, source_digest=source_digest)
    except ResultError as error:
        return error
    at = attempt.finished or context.now
    policy, topic = findings.reported.cleanup_policy, gap_topic_of(result.report)
    is_partial = ending.reason in PARTIAL
    comparison = compare(before, source_digest, findings.reported, topic=topic, is_partial=is_partial)
    compaction, warnings = compaction_conditions(before.conditions, policy, topic)
    compared = comparison_fields(
        before,
        comparison,
        source_digest=source_digest,
        missing_events=findings.missing_events,
        is_partial=is_partial,
        policy=policy,
        at=at,
    )
    return Result(
        conditions={ConditionType.GAPS_CLOSED: comparison.update, **compaction},
        update={**status_fields(findings, before, at), **compared},
        apply=() if findings.bundle_map is None else (findings.bundle_map,),
        events=(*closing_events(before.conditions, comparison.update, now=context.now), *warnings),
    )


def reconcile_gapscan(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Return what a GapScan needs next.

    Args:
        scan: with the status that was last written.
        observed: what exists for it in the cluster.
        now: the time.
        program: what the pods of scans are made of, unless the spec says otherwise.
    """
    return reconcile(_GAPSCAN, scan, observed, lambda: context_of(scan, observed, now, program=program))


def _refusal_now(context: Context) -> Refusal | None:
    return refusal_now(context.resource, context.program)


def _is_current(context: Context, attempt: Attempt) -> bool:
    """Return whether an attempt does what the spec says now; with a schedule, the next one will."""
    scan = context.resource
    return scan.spec.schedule is not None or attempt.work == work_digest(scan, context.resolved)


def _is_due(context: Context) -> bool:
    return context.due.attempt is not None


def _deadlines(context: Context) -> Deadlines:
    engine = context.resource.spec.engine
    return Deadlines(engine.start_deadline_seconds, engine.run_deadline_seconds)


def _rest_or_start(context: Context) -> Result:
    result = show_last_attempt(context) or validate(context)
    if isinstance(result, Validated):
        return queue(context) or start(context, result)
    return result


def _finish(context: Context, result: Result) -> Result:
    return with_times(context, result, {"next_schedule_time": context.schedule}, last=context.track.last)


_SCANNING: Work[Context] = Work(
    track=lambda context: context.track,
    must_stop=(
        *(reference_is_gone, is_suspended, would_be_refused(_refusal_now)),
        *(has_changed(_is_current, "the spec"), is_replaced(_is_due, "scan")),
    ),
    deadlines=_deadlines,
    end=end_of,
    record=record,
    watch=watch,
    look_every=WRITE_EVERY,
    rest_or_start=_rest_or_start,
)
_GAPSCAN: Kind[Context] = Kind(works=(_SCANNING,), announced=None, finish=_finish, superseded=superseded_objects)
