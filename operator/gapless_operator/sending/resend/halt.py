"""Owns why a Resend must not run at the moment, whatever is right or wrong with it, and what is stopped therefore.

Must not know whether its spec is valid: a Resend that is not can be stopped as well.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.children import running_children
from gapless_operator.common.pod_trouble import lost_message
from gapless_operator.common.result import Result
from gapless_operator.sending.queries import current_role
from gapless_operator.sending.resend import conditions as condition_sets
from gapless_operator.sending.resend.conclude import is_current
from gapless_operator.sending.resend.validate import RECHECK_AFTER

if TYPE_CHECKING:
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import Context

_SOON = timedelta(seconds=2)


def halt(context: Context) -> Result | None:
    """Why nothing may run, and what is stopped; ``None`` when it may."""
    resend, observed, everything = context.resend, context.observed, context.everything()
    if resend.spec.suspend:
        message = f"spec.suspend is true; {_what_still_runs(observed)}"
        return Result(conditions=condition_sets.suspended(Reason.SUSPENDED, message), stop=everything)
    diode, name = observed.diode, resend.spec.diode_ref.name
    if diode is None and observed.diode_problem:
        message = f"{observed.diode_problem} Until then nothing is sent over it; progress is saved."
        conditions = condition_sets.waiting_for(Reason.DIODE_INVALID, message)
        return Result(conditions=conditions, stop=everything, again_after=RECHECK_AFTER)
    if diode is None or diode.metadata.deleting:
        message = f"There is no Diode {name} in the namespace {resend.metadata.namespace}; create it."
        conditions = condition_sets.waiting_for(Reason.DIODE_NOT_FOUND, message)
        return Result(conditions=conditions, stop=everything, again_after=RECHECK_AFTER)
    if diode.spec.suspend:
        message = f"Diode {name} is suspended (its spec.suspend is true); {_what_still_runs(observed)}"
        return Result(conditions=condition_sets.suspended(Reason.DIODE_SUSPENDED, message), stop=everything)
    return _stop_leftovers(context)


def _what_still_runs(observed: ResendObserved) -> str:
    """Whether everything has stopped; the message must not claim it while a pod may still send."""
    living = [pod for pod in observed.pods if not pod.ended]
    lost = next((pod for pod in living if pod.is_lost), None)
    if lost is not None:
        return f"pod {lost.meta.name} is being deleted, and it is unknown whether it has stopped. {lost_message(lost)}"
    return f"pod {living[0].meta.name} is being stopped." if living else "progress is saved."


def _stop_leftovers(context: Context) -> Result | None:
    """Stop what runs and does not belong to the current work: of another mode or `force`, or a pod without its Job."""
    resend, observed = context.resend, context.observed
    role = current_role(resend, context.status)
    stray = [job for job in observed.jobs if not job.ended and not is_current(resend, job, role)]
    if stray:
        message = "What runs no longer matches the spec; it is being stopped, and progress is saved."
        conditions = condition_sets.working(Reason.STOPPED, message)
        return Result(conditions=conditions, stop=running_children(stray, ()), again_after=_SOON)
    jobs = {job.meta.name for job in observed.jobs}
    left = [pod for pod in observed.pods if not pod.ended and pod.job not in jobs]
    if left:
        # Another Job would send beside it, from the same checkpoint.
        lost = next((lost_message(pod) for pod in left if pod.is_lost), "")
        message = f"Pod {left[0].meta.name}, whose Job was deleted, is being stopped; progress is saved. {lost}"
        conditions = condition_sets.working(Reason.NODE_LOST if lost else Reason.STOPPED, message.rstrip())
        return Result(conditions=conditions, stop=running_children((), left), again_after=_SOON)
    return None
