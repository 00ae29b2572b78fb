"""What a Resend's status means: waiting for a turn, using one, or ended, and which kind of Job is next.

The Diode assigns turns in its own status; a Resend's status says whether it waits for a turn or uses one. So each
status has one writer, and a crash between two writes leaves a state to continue from. Must not know why it is so.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus

SEND, PLAN = "send", "plan"
"""Roles of Jobs and their pods: those that use the link, and those that only count events or inspect a bundle."""
WAITING = frozenset({Reason.QUEUED, Reason.KEY_LANE_BUSY, Reason.DIODE_NOT_READY})
"""Reasons of `Reconciling` with which a Resend waits for its turn."""
_RUNNING = {SEND: frozenset({Reason.STARTING, Reason.SENDING}), PLAN: frozenset({Reason.PLANNING})}
_RUNNING_EITHER = frozenset(
    {
        Reason.POD_REJECTED,
        Reason.POD_UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.MOUNT_FAILED,
        Reason.POD_SLOW,
        Reason.STOPPED,
        Reason.NODE_LOST,
    }
)
"""Reasons of `Reconciling` of a Resend that has a Job, unless `retryAt` says when the next one starts."""
RUNNING = frozenset[Reason]().union(_RUNNING_EITHER, *_RUNNING.values())
FINISHED = frozenset({Reason.SENT, Reason.NOTHING_TO_SEND, Reason.INCOMPLETE})
"""Reasons of `Succeeded` of a completed Resend, which belongs into the ledger."""
OVER = FINISHED | {Reason.ALREADY_SENT}
"""Reasons of `Succeeded` after which nothing is done any more, unless `force` changes."""


def current_role(resend: Resend, status: ResendStatus) -> str:
    """Return the role of the next Job; a bundle that only a pod can read is inspected before it is sent."""
    bundle = resend.spec.bundle
    needs_pod = bundle is not None and bundle.storage_ref is not None
    return PLAN if resend.spec.mode == "Plan" or (needs_pod and status.bundle_sha256 is None) else SEND


def waits_for_turn(resend: Resend, role: str) -> bool:
    """Return whether the Resend waits for its turn on its Diode, for a Job of that role."""
    is_waiting = not resend.metadata.deleting and _reconciling(resend.status) in WAITING
    return is_waiting and current_role(resend, resend.status) == role


def uses_turn(resend: Resend, role: str) -> bool:
    """Return whether the Resend has a Job of that role, even if that is about to be stopped."""
    reason = _reconciling(resend.status)
    if resend.status.retry_at is not None or current_role(resend, resend.status) != role:
        return False
    return reason in _RUNNING[role] or reason in _RUNNING_EITHER


def outcome_reason(status: ResendStatus) -> Reason | None:
    """Return how a Resend ended that has nothing left to do; ``None`` before that, and after a failure."""
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    if status.finished_at is None or succeeded is None or succeeded.reason not in OVER:
        return None
    return Reason(succeeded.reason)


def queue_order(resend: Resend) -> tuple[int, datetime, str]:
    """Return the sort key of the queue of a Diode: higher priority, then age, then name."""
    return -resend.spec.priority, resend.metadata.creation_timestamp, resend.metadata.name


def _reconciling(status: ResendStatus) -> Reason | None:
    reconciling = condition(status.conditions, ConditionType.RECONCILING)
    if reconciling is None or reconciling.status != "True" or reconciling.reason not in WAITING | RUNNING:
        return None
    return Reason(reconciling.reason)
