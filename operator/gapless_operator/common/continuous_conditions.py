"""The conditions of continuous work that is not running: Archives and Mirrors; must not know their kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.pod_trouble import suspended_message

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod

_OF_NO_WORK = frozenset({Reason.SUSPENDED, Reason.STOPPED, Reason.ENGINE_UNAVAILABLE})
"""Reasons of ``Ready`` that tell nothing of the work."""


def suspended(pods: Iterable[ObservedPod], message: str) -> dict[ConditionType, ConditionUpdate]:
    """Return the conditions while spec.suspend is true.

    Args:
        pods: of the resource; while one of them runs, the message is about that.
        message: once none runs.
    """
    return _idle(Reason.SUSPENDED, suspended_message(pods, message), stalled=NOT_STALLED)


def blocked(reason: Reason, message: str) -> dict[ConditionType, ConditionUpdate]:
    """Return the conditions while starting requires a manual change."""
    return _idle(reason, message, stalled=ConditionUpdate(True, reason, message))


def is_ready_known(conditions: Iterable[Condition]) -> bool:
    """Whether ``Ready`` tells of earlier work that still counts.

    It is kept then while an attempt has no result yet, so that its transition time, and alerts, are not reset.
    """
    ready = condition(conditions, ConditionType.READY)
    return ready is not None and ready.reason not in _OF_NO_WORK


def _idle(reason: Reason, message: str, *, stalled: ConditionUpdate) -> dict[ConditionType, ConditionUpdate]:
    update = ConditionUpdate(False, reason, message)
    return {
        ConditionType.READY: update,
        ConditionType.PROGRESSING: update,
        ConditionType.RECONCILING: update,
        ConditionType.STALLED: stalled,
    }
