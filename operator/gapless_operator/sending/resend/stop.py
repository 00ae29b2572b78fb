"""Why a Resend must not run at the moment, and which of its Jobs and pods are stopped.

Must not know whether its spec is valid: a Resend with an invalid spec is stopped as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.children import running_children
from gapless_operator.common.pod_trouble import lost_message, unfinished_stop
from gapless_operator.common.result import Result
from gapless_operator.sending.queries import current_role
from gapless_operator.sending.resend.conclude import SOON, is_current
from gapless_operator.sending.resend.validate import RECHECK_AFTER
from gapless_operator.sending.sender_pods import template_refusal

if TYPE_CHECKING:
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import Context


def stop(context: Context) -> Result | None:
    """Stop what must not run; ``None`` when everything may."""
    resend, observed, running = context.resend, context.observed, context.running_objects()
    if resend.spec.suspend:
        message = f"spec.suspend is true. {_stopping_state(observed)}"
        return Result(conditions=condition_sets.suspended(Reason.SUSPENDED, message), stop=running)
    diode, name = observed.diode, resend.spec.diode_ref.name
    if diode is None and observed.diode_problem:
        message = f"{observed.diode_problem} Nothing is sent until this is corrected; progress is saved."
        conditions = condition_sets.waiting_for(Reason.DIODE_INVALID, message)
        return Result(conditions=conditions, stop=running, again_after=RECHECK_AFTER)
    if diode is None or diode.metadata.deleting:
        message = f"There is no Diode {name} in the namespace {resend.metadata.namespace}; create it."
        conditions = condition_sets.waiting_for(Reason.DIODE_NOT_FOUND, message)
        return Result(conditions=conditions, stop=running, again_after=RECHECK_AFTER)
    if diode.spec.suspend:
        message = f"Diode {name} is suspended (its spec.suspend is true). {_stopping_state(observed)}"
        return Result(conditions=condition_sets.suspended(Reason.DIODE_SUSPENDED, message), stop=running)
    refusal = template_refusal(diode, context.program)
    if refusal is not None:
        message = f"Diode {name}: {refusal.message} Nothing is sent until this is corrected; progress is saved."
        conditions = condition_sets.waiting_for(Reason.DIODE_INVALID, message)
        return Result(conditions=conditions, stop=running, again_after=RECHECK_AFTER)
    return _stop_superseded(context)


def _stopping_state(observed: ResendObserved) -> str:
    lost = next((pod for pod in observed.pods if pod.is_lost and not pod.ended), None)
    if lost is not None:
        return f"Pod {lost.meta.name} is being deleted, and it is unknown whether it has stopped. {lost_message(lost)}"
    return unfinished_stop(observed.pods) or "Progress is saved."


def _stop_superseded(context: Context) -> Result | None:
    """Stop Jobs of another mode or `force`, and pods whose Job was deleted; ``None`` when there are none."""
    resend, observed = context.resend, context.observed
    role = current_role(resend, context.status)
    outdated = [job for job in observed.jobs if not job.ended and not is_current(resend, job, role)]
    if outdated:
        message = f"Job {outdated[0].meta.name} no longer matches the spec; it is being stopped, and progress is saved."
        conditions = condition_sets.working(Reason.STOPPED, message)
        return Result(conditions=conditions, stop=running_children(outdated, ()), again_after=SOON)
    jobs = {job.meta.name for job in observed.jobs}
    orphans = [pod for pod in observed.pods if not pod.ended and pod.job not in jobs]
    if orphans:
        # The next Job would send beside it, from the same checkpoint.
        lost = next((lost_message(pod) for pod in orphans if pod.is_lost), "")
        message = f"Pod {orphans[0].meta.name}, whose Job was deleted, is being stopped; progress is saved. {lost}"
        conditions = condition_sets.working(Reason.NODE_LOST if lost else Reason.STOPPED, message.rstrip())
        return Result(conditions=conditions, stop=running_children((), orphans), again_after=SOON)
    return None
