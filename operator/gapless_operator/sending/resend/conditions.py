"""Owns the sets of conditions that a Resend can have, one function for each kind of context.

Must not know how a context comes about. docs/decisions/0003-what-the-conditions-of-a-resend-say.md gives the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate

if TYPE_CHECKING:
    from collections.abc import Mapping


def working(reason: Reason | str, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Gapless is at it, or waits for something that passes by itself."""
    return _conditions(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(True, reason, message),
        succeeded=ConditionUpdate(None, reason, message),
    )


def waiting_for(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Something that the spec refers to is not there yet; it may be applied a moment later."""
    return {**working(reason, message), ConditionType.ACCEPTED: ConditionUpdate(False, reason, message)}


def refused(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The spec cannot be carried out as it is."""
    return {**failed(reason, message), ConditionType.ACCEPTED: ConditionUpdate(False, reason, message)}


def failed(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """It was tried, or must not be tried, and a person must act."""
    return _conditions(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(False, reason, message),
        stalled=ConditionUpdate(True, reason, message),
    )


def suspended(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The spec, or that of the Diode, says to pause."""
    return _conditions(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, reason),
        succeeded=ConditionUpdate(None, reason, message),
    )


def planned(message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The plan is there, which is all that mode Plan does: ready, and not succeeded because nothing was sent."""
    return _conditions(
        ready=ConditionUpdate(True, Reason.PLANNED, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(None, Reason.PLANNED, message),
    )


def entering_ledger(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """All is done; the Resend succeeds only when the Diode's ledger has it."""
    waiting = f"{message} The Diode's ledger is being written."
    return _conditions(
        ready=ConditionUpdate(False, Reason.SENDING, waiting),
        reconciling=ConditionUpdate(True, reason, waiting),
        succeeded=ConditionUpdate(None, reason, message),
    )


def over(reason: Reason, message: str, *, complete: bool) -> Mapping[ConditionType, ConditionUpdate]:
    """All was done that can be done, and whether that was everything."""
    if not complete:
        return failed(reason, message)
    return _conditions(
        ready=ConditionUpdate(True, reason, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(True, reason, message),
    )


def _conditions(
    *,
    ready: ConditionUpdate,
    reconciling: ConditionUpdate,
    succeeded: ConditionUpdate,
    stalled: ConditionUpdate | None = None,
) -> Mapping[ConditionType, ConditionUpdate]:
    return {
        ConditionType.ACCEPTED: ConditionUpdate(True, Reason.ACCEPTED),
        ConditionType.READY: ready,
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled or ConditionUpdate(False, Reason.NOT_STALLED),
        ConditionType.SUCCEEDED: succeeded,
    }
