"""The order of a Resend's reconcile: stop, conclude, validate, queue, start; and the clean-up afterwards.

What must not run is stopped, and what has ended is recorded, even if the spec is invalid. Must not know how anything is
written or watched. Pure: the same Resend, observation and time give the same plan. Decisions follow from what exists
(Jobs, pods, the Diode's status); the Resend's own status only holds what nothing else does: the number of the attempt,
when the next one may start, and how it ended.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, error_outcome
from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import API_VERSION
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.children import running_children
from gapless_operator.common.plan import Plan, Ref
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.common.result import Announced, Result, plan_of
from gapless_operator.sending.ledger import LedgerWrites, entries_of, entry_of, latest_entry, writes_for
from gapless_operator.sending.link_profile import profile_of, with_budget
from gapless_operator.sending.progress import without_rate
from gapless_operator.sending.queries import PLAN, SEND, outcome_reason
from gapless_operator.sending.resend.age import too_old
from gapless_operator.sending.resend.conclude import conclude, latest_job
from gapless_operator.sending.resend.context import Context, ValidContext
from gapless_operator.sending.resend.filter_rules import FILTER, with_rules
from gapless_operator.sending.resend.jobs import proceed, superseded_objects
from gapless_operator.sending.resend.limits import check_limits
from gapless_operator.sending.resend.manifests import BUNDLE
from gapless_operator.sending.resend.properties import checkpoint_folder
from gapless_operator.sending.resend.stop import stop
from gapless_operator.sending.resend.validate import RECHECK_AFTER, validate

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend, ResendSpec
    from gapless_api.v1alpha1.resend_status import ResendStatus
    from gapless_api.wire.ledger import LedgerEntry
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import ResendObserved

JOBS_KEPT = timedelta(hours=1)
"""How long the Jobs of a finished Resend are kept, for their logs."""
_WARNINGS = frozenset(Reason) - {
    Reason.QUEUED,
    Reason.KEY_LANE_BUSY,
    Reason.PLANNING,
    Reason.PLANNED,
    Reason.STARTING,
    Reason.SENDING,
    Reason.SENT,
    Reason.NOTHING_TO_SEND,
    Reason.ALREADY_SENT,
    Reason.SUSPENDED,
    Reason.DIODE_SUSPENDED,
    Reason.STOPPED,
}
_ANNOUNCED = Announced(ConditionType.READY, _WARNINGS)


def reconcile_resend(resend: Resend, observed: ResendObserved, now: datetime, program: Program) -> Plan:
    """Return what a Resend needs next.

    Args:
        resend: with the status that was last written.
        observed: what exists for it in the cluster.
        now: the time.
        program: the sender image.
    """
    if resend.metadata.deleting:
        # A finalizer of another program may keep it for long.
        return Plan(stop=running_children(observed.jobs, observed.pods))
    now = now.replace(microsecond=0)
    with suppress(ConfigurationError):  # `validate` refuses rules that cannot be read.
        resend = with_rules(resend, observed.filter_entry)
    if observed.diode is not None:
        profile = profile_of(observed.diode, observed.profile_entry, observed.profile_problem)
        observed = replace(observed, diode=with_budget(observed.diode, profile, copies=resend.spec.copies))
    context = Context(resend=resend, status=_resume_status(resend, now), observed=observed, now=now, program=program)
    return _plan(context, _next(context))


def _plan(context: Context, result: Result) -> Plan:
    progress = context.status.progress
    if progress is not None and "progress" not in result.update:  # Nothing is sent, so there is no rate.
        result = replace(result, update={**result.update, "progress": without_rate(progress)})
    return plan_of(context.resend, context.status, result, now=context.now, announced=_ANNOUNCED)


def _resume_status(resend: Resend, now: datetime) -> ResendStatus:
    """Return the status without what a change of the spec has invalidated.

    Another `force` is new work. Any change of the spec makes a failed Resend retry.
    """
    status = resend.status
    is_new = status.attempt == 0 and status.finished_at is None
    if status.force != resend.spec.force:
        if is_new:
            return status.model_copy(update={"force": resend.spec.force, "retry": resend.spec.retry})
        return status.model_copy(
            update={
                "force": resend.spec.force,
                "progress": None,
                "unavailable": (),
                "report": None,
                "identity": None,
                "bundle_sha256": None,
                "bundle_id": None,
                "started_at": None,
                "finished_at": None,
                "retry_at": now if status.attempt else None,
                "session_key_secret": None,
                "checkpoint": None,
                **_new_round(resend),
            }
        )
    failed = status.finished_at is not None and outcome_reason(status) is None
    if failed and status.observed_generation != resend.metadata.generation:
        # Started work keeps its checkpoint folder, even one that is named after the object (see `checkpoint_folder`).
        folder = checkpoint_folder(resend)
        update = {"started_at": None, "finished_at": None, "retry_at": now, "checkpoint": folder}
        return status.model_copy(update={**update, **_new_round(resend)})
    if status.retry != resend.spec.retry and status.finished_at is None:
        retry_now = {"retry_at": now} if status.retry_at is not None else {}
        return status.model_copy(update={**retry_now, **_new_round(resend)})
    return status


def _new_round(resend: Resend) -> dict[str, Any]:
    """Return the fields of the status that restart the count of attempts."""
    return {"retry": resend.spec.retry, "attempts_before": resend.status.attempt}


def _next(context: Context) -> Result:
    """Stop, conclude, validate, and only then queue and start."""
    if outcome_reason(context.status) is not None:
        return replace(_finish(context), stop=context.running_objects())
    if context.status.finished_at is not None:
        return Result(conditions={}, stop=context.running_objects())  # It failed, and the spec has not changed since.
    stopped, concluded = stop(context), conclude(context)
    if stopped is not None:
        return stopped if concluded is None else _conclude_while_stopped(stopped, concluded)
    return concluded or _validate_and_proceed(context)


def _conclude_while_stopped(stopped: Result, concluded: Result) -> Result:
    """Show a final outcome at once; a retry waits until nothing stops the Resend any more."""
    is_final = "finished_at" in concluded.update
    return replace(
        concluded,
        conditions=concluded.conditions if is_final else stopped.conditions,
        stop=stopped.stop,
        again_after=concluded.again_after if is_final or stopped.again_after is None else stopped.again_after,
    )


def _validate_and_proceed(context: Context) -> Result:
    """Check whether the Resend can be carried out, and queue or start it; what runs for an invalid one is stopped."""
    refusal = _refusal_now(context)
    if refusal is not None:
        return Result(conditions=condition_sets.refused(*refusal), stop=context.running_objects())
    try:
        validated = validate(context)
        if isinstance(validated, Result):
            return replace(validated, stop=context.running_objects())
        status = context.status.model_copy(update=dict(validated.update))
        valid = ValidContext(
            # Children are made from the status as it will be written, so that the next reconcile changes nothing.
            resend=context.resend.model_copy(update={"status": status}),
            status=status,
            observed=context.observed,
            now=context.now,
            program=context.program,
            diode=validated.diode,
            sources=validated.sources,
            is_identified=validated.is_identified,
        )
        result = _plan_or_send(valid)
    except ConfigurationError as error:
        conditions = condition_sets.refused(Reason(error_outcome(error).condition_reason), str(error))
        return Result(conditions=conditions, stop=context.running_objects())
    delete = (*result.delete, *superseded_objects(context.observed))
    return replace(result, update={**validated.update, **result.update}, delete=delete)


def _refusal_now(context: Context) -> Refusal | None:
    """Return why the Diode does not allow the Resend, or no longer; ``None`` if it may run."""
    resend, diode = context.resend, context.observed.diode
    return None if diode is None else refusal_of(lambda: check_limits(resend, diode))


def _plan_or_send(context: ValidContext) -> Result:
    """Plan, inspect the bundle, or send."""
    if context.resend.spec.mode == "Plan":
        return _keep_plan(context) or proceed(context, PLAN)
    if not context.is_identified:
        # Only a pod can read the bundle. Without its digest, the ledger cannot tell whether it was already sent.
        return _inspect_bundle(context)
    return _check_ledger(context) or proceed(context, SEND)


def _check_ledger(context: ValidContext) -> Result | None:
    """Refuse to start work that was sent before, or may have been; ``None`` when it may start, or has."""
    resend, status, diode = context.resend, context.status, context.diode
    has_started = status.started_at is not None or latest_job(resend, context.observed, SEND) is not None
    if has_started or status.identity is None:
        return None
    parts = context.observed.ledger
    problem = next((part.problem for part in parts if part.problem), "")
    if problem:
        conditions = condition_sets.waiting_for(Reason.LEDGER_UNREADABLE, problem)
        return Result(conditions=conditions, again_after=RECHECK_AFTER)
    entry = latest_entry(entries_of(parts), identity=status.identity, force=resend.spec.force)
    if entry is not None:
        later = " Events written later are not included." if _includes_later_events(resend.spec, entry) else ""
        message = (
            f"The same events were sent by Resend {entry.resend} until {entry.finished_at} "
            f"({entry.sent:,} events, {entry.unavailable:,} unavailable).{later} To send them again, set "
            f"spec.force to a new value."
        )
        return Result(
            conditions=condition_sets.finished(Reason.ALREADY_SENT, message, complete=not entry.unavailable),
            update={"finished_at": context.now, "retry_at": None},
        )
    message = too_old(resend, status, diode.spec.not_before)
    if message:
        return Result(conditions=condition_sets.refused(Reason.TOO_OLD, message), again_after=RECHECK_AFTER)
    return None


def _includes_later_events(spec: ResendSpec, entry: LedgerEntry) -> bool:
    """Whether a selection is open-ended, or ends later than the same work in the ledger was finished."""
    if spec.offsets is not None:
        return spec.offsets.to is None
    if spec.time_range is not None:
        return spec.time_range.to is None or moment_text(spec.time_range.to) > entry.finished_at
    return False


def _keep_plan(context: ValidContext) -> Result | None:
    """Keep a plan that is in the status and whose Job was cleaned up; ``None`` when there is none."""
    status = context.status
    ready = condition(status.conditions, ConditionType.READY)
    if (
        status.plan is None
        or ready is None
        or ready.reason != Reason.PLANNED
        or latest_job(context.resend, context.observed, PLAN) is not None
    ):
        return None
    return Result(conditions=condition_sets.planned(ready.message))


def _inspect_bundle(context: ValidContext) -> Result:
    """Have a plan Job read the bundle, and take its digest from the result."""
    result = proceed(context, PLAN)
    if "plan" not in result.update:
        return result
    if "bundle_sha256" not in result.update:
        message = "The sender did not report which bundle it read; check that the sender image and the operator match."
        return Result(conditions=condition_sets.failed(Reason.DEFECT, message), update=result.update)
    message = "The bundle was read; it will be sent."
    return Result(
        conditions=condition_sets.working(Reason.PLANNING, message),
        update=result.update,
        again_after=timedelta(seconds=1),
    )


def _finish(context: Context) -> Result:
    """Write the finished work to the ledger, show the outcome, and clean up in time."""
    resend, status, observed, now = context.resend, context.status, context.observed, context.now
    reason, finished = outcome_reason(status), status.finished_at
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    if reason is None or succeeded is None or finished is None:
        raise ValueError("this Resend has not finished")
    # The ledger is written before the status, so that no crash can lose the entry.
    entry = entry_of(resend.model_copy(update={"status": status})) if succeeded.status == "Unknown" else None
    writes = LedgerWrites()
    if entry is not None:
        writes = writes_for(
            [entry],
            observed.ledger,
            namespace=resend.metadata.namespace,
            diode_name=resend.spec.diode_ref.name,
            diode=observed.diode,
        )
    complete = succeeded.status == "True" if succeeded.status != "Unknown" else reason != Reason.INCOMPLETE
    refs, delays = [], []
    if now - finished >= JOBS_KEPT:
        refs = [Ref("batch/v1", "Job", job.meta.name, job.meta.uid) for job in observed.jobs if not job.meta.deleting]
        refs += [
            Ref("v1", "ConfigMap", child.meta.name, child.meta.uid)
            for child in observed.config_maps
            if child.meta.role in {PLAN, SEND, BUNDLE, FILTER} and not child.meta.deleting
        ]
    else:
        delays.append(finished + JOBS_KEPT - now)
    ttl = resend.spec.ttl_seconds_after_finished
    if ttl is not None:
        remaining = finished + timedelta(seconds=ttl) - now
        if remaining <= timedelta(0) and succeeded.status != "Unknown":
            refs = [Ref(API_VERSION, "Resend", resend.metadata.name, resend.metadata.uid)]
        delays.append(max(remaining, timedelta(seconds=1)))
    return Result(
        conditions=condition_sets.finished(reason, succeeded.message, complete=complete),
        create=writes.create,
        apply=writes.apply,
        delete=tuple(refs),
        again_after=min(delays, default=None),
    )
