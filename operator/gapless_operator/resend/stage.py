"""Owns how others read from a Resend's status where it stands; must not know how it got there.

The Diode decides whose turn it is and writes it down in its own status; a Resend says in its status whether it asks for
a turn or uses one. So each status has one writer, and a crash between any two writes leaves something to go on from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.resend import Resend, ResendStatus

ASKING = frozenset({Reason.QUEUED, Reason.KEY_LANE_BUSY, Reason.DIODE_NOT_READY})
"""Reasons of `Reconciling` with which a Resend waits for its turn."""
RUNNING = frozenset(
    {
        Reason.STARTING,
        Reason.SENDING,
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
FINISHED = frozenset({Reason.SENT, Reason.NOTHING_TO_SEND, Reason.INCOMPLETE})
"""Reasons of `Succeeded` with which a Resend went through to its end and belongs into the ledger."""
OVER = FINISHED | {Reason.ALREADY_SENT}
"""Reasons of `Succeeded` with which nothing will ever be done again, unless `force` changes."""


def asks_for_turn(resend: Resend) -> bool:
    """Whether the Resend waits for its turn on its Diode."""
    return not resend.metadata.deleting and _reconciling(resend.status) in ASKING


def uses_turn(resend: Resend) -> bool:
    """Whether the Resend has a Job that sends, or is about to have it stopped."""
    return resend.status.retry_at is None and _reconciling(resend.status) in RUNNING


def verdict(status: ResendStatus) -> Reason | None:
    """How a Resend ended, once all its events were dealt with; ``None`` before, and after a failure."""
    said = condition(status.conditions, ConditionType.SUCCEEDED)
    if status.finished_at is None or said is None or said.reason not in OVER:
        return None
    return Reason(said.reason)


def order(resend: Resend) -> tuple[int, datetime, str]:
    """What the queue of a Diode is sorted by: higher priority, then age, then name."""
    return -resend.spec.priority, resend.metadata.creation_timestamp, resend.metadata.name


def _reconciling(status: ResendStatus) -> Reason | None:
    said = condition(status.conditions, ConditionType.RECONCILING)
    if said is None or said.status != "True" or said.reason not in ASKING | RUNNING:
        return None
    return Reason(said.reason)
