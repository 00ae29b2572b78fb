"""Owns how others read from a Resend's status where it stands, and which kind of pod it needs; must not know why.

The Diode decides whose turn it is and writes it down in its own status; a Resend says in its status whether it waits
for a turn or uses one. So each status has one writer, and a crash between two writes leaves a state to continue from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus

SEND, PLAN = "send", "plan"
"""Roles of Jobs and their pods: those that use the link, and those that only count or look into a bundle."""
ASKING = frozenset({Reason.QUEUED, Reason.KEY_LANE_BUSY, Reason.DIODE_NOT_READY})
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
"""Reasons of `Reconciling` with which it has a Job, unless `retryAt` says that the next one is still to come."""
RUNNING = frozenset[Reason]().union(_RUNNING_EITHER, *_RUNNING.values())
FINISHED = frozenset({Reason.SENT, Reason.NOTHING_TO_SEND, Reason.INCOMPLETE})
"""Reasons of `Succeeded` with which a Resend went through to its end and belongs into the ledger."""
OVER = FINISHED | {Reason.ALREADY_SENT}
"""Reasons of `Succeeded` with which nothing will ever be done again, unless `force` changes."""


def current_role(resend: Resend, status: ResendStatus) -> str:
    """What a Job has to be for now: a bundle that only a pod can read is looked into before it is sent."""
    bundle = resend.spec.bundle
    is_out_of_reach = bundle is not None and bundle.storage_ref is not None
    return PLAN if resend.spec.mode == "Plan" or (is_out_of_reach and status.bundle_sha256 is None) else SEND


def asks_for_turn(resend: Resend, role: str) -> bool:
    """Whether the Resend waits for its turn on its Diode to have a Job of that role."""
    asks = not resend.metadata.deleting and _reconciling(resend.status) in ASKING
    return asks and current_role(resend, resend.status) == role


def uses_turn(resend: Resend, role: str) -> bool:
    """Whether the Resend has a Job of that role, or is about to have it stopped."""
    reason = _reconciling(resend.status)
    if resend.status.retry_at is not None or current_role(resend, resend.status) != role:
        return False
    return reason in _RUNNING[role] or reason in _RUNNING_EITHER


def outcome_reason(status: ResendStatus) -> Reason | None:
    """How a Resend ended, once all its events were dealt with; ``None`` before, and after a failure."""
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    if status.finished_at is None or succeeded is None or succeeded.reason not in OVER:
        return None
    return Reason(succeeded.reason)


def order(resend: Resend) -> tuple[int, datetime, str]:
    """What the queue of a Diode is sorted by: higher priority, then age, then name."""
    return -resend.spec.priority, resend.metadata.creation_timestamp, resend.metadata.name


def _reconciling(status: ResendStatus) -> Reason | None:
    reconciling = condition(status.conditions, ConditionType.RECONCILING)
    if reconciling is None or reconciling.status != "True" or reconciling.reason not in ASKING | RUNNING:
        return None
    return Reason(reconciling.reason)
