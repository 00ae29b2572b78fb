"""Owns the conditions of work that ends, one function for each case: Resends and Restores.

Must not know which work, nor what is done in that case.
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
    return of_work(
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


def failed(reason: Reason | str, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """It was tried, or must not be tried, and a person must act."""
    return of_work(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(False, reason, message),
        stalled=ConditionUpdate(True, reason, message),
    )


def suspended(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The spec, or that of what it needs, says to pause."""
    return of_work(
        ready=ConditionUpdate(False, reason, message),
        reconciling=ConditionUpdate(False, reason),
        succeeded=ConditionUpdate(None, reason, message),
    )


def planned(message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The plan is there, which is all that mode Plan does: ready, and not succeeded because nothing was done."""
    return of_work(
        ready=ConditionUpdate(True, Reason.PLANNED, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(None, Reason.PLANNED, message),
    )


def over(reason: Reason | str, message: str, *, complete: bool) -> Mapping[ConditionType, ConditionUpdate]:
    """All was done that can be done, and whether that was everything."""
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
    """All conditions of work whose spec is accepted."""
    return {
        ConditionType.ACCEPTED: ConditionUpdate(True, Reason.ACCEPTED),
        ConditionType.READY: ready,
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled or ConditionUpdate(False, Reason.NOT_STALLED),
        ConditionType.SUCCEEDED: succeeded,
    }
