"""Owns the sets of conditions that a Resend can have, one function for each kind of situation.

Must not know how a situation comes about. docs/decisions/0003-what-the-conditions-of-a-resend-say.md gives the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import Said

if TYPE_CHECKING:
    from collections.abc import Mapping


def working(reason: Reason | str, message: str) -> Mapping[ConditionType, Said]:
    """Gapless is at it, or waits for something that passes by itself."""
    return _said(
        ready=Said(False, reason, message),
        reconciling=Said(True, reason, message),
        succeeded=Said(None, reason, message),
    )


def waiting_for(reason: Reason, message: str) -> Mapping[ConditionType, Said]:
    """Something that the spec refers to is not there yet; it may be applied a moment later."""
    return {**working(reason, message), ConditionType.ACCEPTED: Said(False, reason, message)}


def refused(reason: Reason, message: str) -> Mapping[ConditionType, Said]:
    """The spec cannot be carried out as it is."""
    return {**failed(reason, message), ConditionType.ACCEPTED: Said(False, reason, message)}


def failed(reason: Reason, message: str) -> Mapping[ConditionType, Said]:
    """It was tried, or must not be tried, and a person must act."""
    return _said(
        ready=Said(False, reason, message),
        reconciling=Said(False, Reason.SETTLED),
        succeeded=Said(False, reason, message),
        stalled=Said(True, reason, message),
    )


def suspended(reason: Reason, message: str) -> Mapping[ConditionType, Said]:
    """The spec, or that of the Diode, says to pause."""
    return _said(
        ready=Said(False, reason, message),
        reconciling=Said(False, reason),
        succeeded=Said(None, reason, message),
    )


def planned(message: str) -> Mapping[ConditionType, Said]:
    """The plan is there, which is all that the spec asks for: ready, and not succeeded because nothing was sent."""
    return _said(
        ready=Said(True, Reason.PLANNED, message),
        reconciling=Said(False, Reason.SETTLED),
        succeeded=Said(None, Reason.PLANNED, message),
    )


def entering_ledger(reason: Reason, message: str) -> Mapping[ConditionType, Said]:
    """All is done; it is said aloud only when the Diode's ledger cannot forget it any more."""
    waiting = f"{message} The Diode's ledger is being written."
    return _said(
        ready=Said(False, Reason.SENDING, waiting),
        reconciling=Said(True, reason, waiting),
        succeeded=Said(None, reason, message),
    )


def over(reason: Reason, message: str, *, whole: bool) -> Mapping[ConditionType, Said]:
    """All was done that can be done, and whether that was the whole of it."""
    if not whole:
        return failed(reason, message)
    return _said(
        ready=Said(True, reason, message),
        reconciling=Said(False, Reason.SETTLED),
        succeeded=Said(True, reason, message),
    )


def _said(
    *, ready: Said, reconciling: Said, succeeded: Said, stalled: Said | None = None
) -> Mapping[ConditionType, Said]:
    return {
        ConditionType.ACCEPTED: Said(True, Reason.ACCEPTED),
        ConditionType.READY: ready,
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled or Said(False, Reason.NOT_STALLED),
        ConditionType.SUCCEEDED: succeeded,
    }
