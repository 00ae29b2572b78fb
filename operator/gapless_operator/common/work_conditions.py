"""The conditions of finite work, one function for each case: Resends and Restores; must not know the work."""

from __future__ import annotations

from collections.abc import Mapping

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate


def working(reason: Reason | str, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions while the work is in progress, or waits for something that resolves itself."""
    return of_work(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(True, reason, message),
        succeeded=ConditionUpdate(None, reason, message),
    )


def waiting_for(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions while an object that the spec refers to does not exist; it may be created soon."""
    return {**working(reason, message), ConditionType.ACCEPTED: ConditionUpdate(False, reason, message)}


def refused(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions of an invalid spec."""
    return {**failed(reason, message), ConditionType.ACCEPTED: ConditionUpdate(False, reason, message)}


def failed(reason: Reason | str, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions when the work requires a manual change."""
    return of_work(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(False, reason, message),
        stalled=ConditionUpdate(True, reason, message),
    )


def suspended(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions while the work, or the Diode it uses, is suspended."""
    return of_work(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, reason),
        succeeded=ConditionUpdate(None, reason, message),
    )


def planned(message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions of a complete plan: Ready, but not Succeeded, because nothing was done."""
    return of_work(
        ready=ConditionUpdate(True, Reason.PLANNED, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(None, Reason.PLANNED, message),
    )


def finished(reason: Reason | str, message: str, *, complete: bool) -> Mapping[ConditionType, ConditionUpdate]:
    """Return the conditions of finished work; it has failed unless it is `complete`."""
    if not complete:
        return failed(reason, message)
    return of_work(
        ready=ConditionUpdate(True, reason, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(True, reason, message),
    )


def of_work(
    *,
    ready: ConditionUpdate,
    reconciling: ConditionUpdate,
    succeeded: ConditionUpdate,
    stalled: ConditionUpdate | None = None,
) -> Mapping[ConditionType, ConditionUpdate]:
    """Return all conditions of work with an accepted spec."""
    return {
        ConditionType.ACCEPTED: ConditionUpdate(True, Reason.ACCEPTED),
        ConditionType.READY: ready,
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled or NOT_STALLED,
        ConditionType.SUCCEEDED: succeeded,
    }
