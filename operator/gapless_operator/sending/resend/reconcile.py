"""Owns what a Resend needs next, in this order: stop, conclude, validate, then plan, queue and start; and the clean-up.

The order matters: what must not run is stopped, and what has ended is written down, whatever is wrong with the spec.
Must not know how anything is written or watched. Pure: the same Resend, observation and time give the same plan. What
is decided is read from what exists (Jobs, pods, the Diode's status); the Resend's own status only remembers what
nothing else does: the number of the attempt, when the next one may begin, and how it ended.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.errors import verdict as verdict_of_error
from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import API_VERSION
from gapless_operator.common.children import running_children
from gapless_operator.common.plan import Plan, Ref
from gapless_operator.common.result import Result, plan_of
from gapless_operator.sending.ledger import LedgerWrites, entries_of, entry_of, same_work, writes_for
from gapless_operator.sending.queries import PLAN, SEND, outcome_reason
from gapless_operator.sending.resend import conditions as condition_sets
from gapless_operator.sending.resend.age import too_old
from gapless_operator.sending.resend.conclude import conclude, latest_job
from gapless_operator.sending.resend.context import Context, ValidContext
from gapless_operator.sending.resend.filter_rules import FILTER, with_rules
from gapless_operator.sending.resend.halt import halt
from gapless_operator.sending.resend.jobs import proceed, superseded_objects
from gapless_operator.sending.resend.manifests import BUNDLE
from gapless_operator.sending.resend.properties import checkpoint_folder
from gapless_operator.sending.resend.validate import RECHECK_AFTER, validate

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.resend import Resend, ResendSpec
    from gapless_api.v1alpha1.resend_status import ResendStatus
    from gapless_api.wire.ledger import LedgerEntry
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import ResendObserved

JOBS_KEPT = timedelta(hours=1)
"""How long the Jobs of a Resend that is over are kept, for their logs."""
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


def reconcile_resend(resend: Resend, observed: ResendObserved, now: datetime, program: Program) -> Plan:
    """Say what a Resend needs next.

    Args:
        resend: with the status that was written last.
        observed: what there is around it.
        now: the time.
        program: the sender image.
    """
    if resend.metadata.deleting:
        # Somebody's finalizer may keep it for long.
        return Plan(stop=running_children(observed.jobs, observed.pods))
    now = now.replace(microsecond=0)
    with suppress(ConfigurationError):  # Rules that cannot be read are refused when the Resend is validated.
        resend = with_rules(resend, observed.filter_entry)
    context = Context(resend=resend, status=_resume_status(resend, now), observed=observed, now=now, program=program)
    return _plan(context, _next(context))


def _plan(context: Context, result: Result) -> Plan:
    return plan_of(context.resend, context.status, result, now=context.now, warnings=_WARNINGS)


def _resume_status(resend: Resend, now: datetime) -> ResendStatus:
    """The status without what a change of the spec has made void.

    Another `force` is new work. Any change of the spec is a reason to try again what had failed.
    """
    status = resend.status
    nothing_yet = status.attempt == 0 and status.finished_at is None
    if status.force != resend.spec.force:
        if nothing_yet:
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
        # What was begun continues in its folder, also where that is named after the object (see `checkpoint_folder`).
        folder = checkpoint_folder(resend)
        update = {"started_at": None, "finished_at": None, "retry_at": now, "checkpoint": folder}
        return status.model_copy(update={**update, **_new_round(resend)})
    if status.retry != resend.spec.retry and status.finished_at is None:
        again = {"retry_at": now} if status.retry_at is not None else {}
        return status.model_copy(update={**again, **_new_round(resend)})
    return status


def _new_round(resend: Resend) -> dict[str, Any]:
    """The fields of the status with which the count of attempts begins again."""
    return {"retry": resend.spec.retry, "attempts_before": resend.status.attempt}


def _next(context: Context) -> Result:
    """Stop, conclude, validate, and only then plan, queue or start."""
    if outcome_reason(context.status) is not None:
        return replace(_finish(context), stop=context.everything())
    if context.status.finished_at is not None:
        return Result(conditions={}, stop=context.everything())  # It failed, and nobody has changed the spec since.
    halted, concluded = halt(context), conclude(context)
    if halted is not None:
        return halted if concluded is None else _conclude_while_halted(halted, concluded)
    return concluded or _begin(context)


def _conclude_while_halted(halted: Result, concluded: Result) -> Result:
    """What has ended for good is shown; what would be tried again waits until nothing stops it any more."""
    is_final = "finished_at" in concluded.update
    return replace(
        concluded,
        conditions=concluded.conditions if is_final else halted.conditions,
        stop=halted.stop,
        again_after=concluded.again_after if is_final or halted.again_after is None else halted.again_after,
    )


def _begin(context: Context) -> Result:
    """Check whether the Resend can be carried out, and plan, queue or start; what cannot be does not run."""
    try:
        found = validate(context)
        if isinstance(found, Result):
            return replace(found, stop=context.everything())
        status = context.status.model_copy(update=dict(found.update))
        valid = ValidContext(
            # What runs is made of the status as it will be written, so that the next reconcile finds nothing to change.
            resend=context.resend.model_copy(update={"status": status}),
            status=status,
            observed=context.observed,
            now=context.now,
            program=context.program,
            diode=found.diode,
            sources=found.sources,
            is_known=found.is_known,
        )
        result = _plan_or_send(valid)
    except ConfigurationError as error:
        conditions = condition_sets.refused(Reason(verdict_of_error(error).condition_reason), str(error))
        return Result(conditions=conditions, stop=context.everything())
    delete = (*result.delete, *superseded_objects(context.observed))
    return replace(result, update={**found.update, **result.update}, delete=delete)


def _plan_or_send(context: ValidContext) -> Result:
    """Plan or send, whichever it is time for."""
    resend, status, diode = context.resend, context.status, context.diode
    if resend.spec.mode == "Plan":
        return _keep_plan(context) or proceed(context, PLAN)
    if not context.is_known:
        # Only a pod can read the bundle: have it inspected first, so that the ledger can tell whether it was sent.
        return _inspect_bundle(context)
    if status.started_at is None and latest_job(resend, context.observed, SEND) is None and status.identity is not None:
        parts = context.observed.ledger
        problem = next((part.problem for part in parts if part.problem), "")
        if problem:
            return Result(
                conditions=condition_sets.waiting_for(Reason.LEDGER_UNREADABLE, problem), again_after=RECHECK_AFTER
            )
        entry = same_work(entries_of(parts, diode), identity=status.identity, force=resend.spec.force)
        if entry is not None:
            later = " What was written later is not among them." if _reaches_beyond(resend.spec, entry) else ""
            message = (
                f"The same events were sent by Resend {entry.resend} until {entry.finished_at} "
                f"({entry.sent:,} events, {entry.unavailable:,} unavailable).{later} To send it again, set spec.force "
                f"to a new word."
            )
            return Result(
                conditions=condition_sets.finished(Reason.ALREADY_SENT, message, complete=not entry.unavailable),
                update={"finished_at": context.now, "retry_at": None},
            )
        message = too_old(resend, status, diode.spec.not_before)
        if message:
            return Result(conditions=condition_sets.refused(Reason.TOO_OLD, message), again_after=RECHECK_AFTER)
    return proceed(context, SEND)


def _reaches_beyond(spec: ResendSpec, entry: LedgerEntry) -> bool:
    """Whether what `spec` names has no end, or one that was still to come when the same work had ended."""
    if spec.offsets is not None:
        return spec.offsets.to is None
    if spec.time_range is not None:
        return spec.time_range.to is None or moment_text(spec.time_range.to) > entry.finished_at
    return False


def _keep_plan(context: ValidContext) -> Result | None:
    """The plan is in the status and its Job was cleaned away."""
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
    """Everything is done: have it recorded, say it, and clean up in time."""
    resend, status, observed, now = context.resend, context.status, context.observed, context.now
    reason, finished = outcome_reason(status), status.finished_at
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    if reason is None or succeeded is None or finished is None:
        raise ValueError("this Resend is not over")
    # The ledger is written before the status, so that what is over can never be forgotten.
    entry = entry_of(resend.model_copy(update={"status": status})) if succeeded.status == "Unknown" else None
    writes = LedgerWrites()
    if entry is not None:
        writes = writes_for(
            [] if entry.key in {known.key for known in entries_of(observed.ledger, observed.diode)} else [entry],
            observed.ledger,
            namespace=resend.metadata.namespace,
            diode_name=resend.spec.diode_ref.name,
            diode=observed.diode,
        )
    complete = succeeded.status == "True" if succeeded.status != "Unknown" else reason != Reason.INCOMPLETE
    refs, due = [], []
    if now - finished >= JOBS_KEPT:
        refs = [Ref("batch/v1", "Job", job.meta.name, job.meta.uid) for job in observed.jobs if not job.meta.deleting]
        refs += [
            Ref("v1", "ConfigMap", child.meta.name, child.meta.uid)
            for child in observed.config_maps
            if child.meta.role in {PLAN, SEND, BUNDLE, FILTER} and not child.meta.deleting
        ]
    else:
        due.append(finished + JOBS_KEPT - now)
    ttl = resend.spec.ttl_seconds_after_finished
    if ttl is not None:
        left = finished + timedelta(seconds=ttl) - now
        if left <= timedelta(0) and succeeded.status != "Unknown":
            refs = [Ref(API_VERSION, "Resend", resend.metadata.name, resend.metadata.uid)]
        due.append(max(left, timedelta(seconds=1)))
    return Result(
        conditions=condition_sets.finished(reason, succeeded.message, complete=complete),
        create=writes.create,
        apply=writes.apply,
        delete=tuple(refs),
        again_after=min(due, default=None),
    )
