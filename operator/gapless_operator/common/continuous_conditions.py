"""The conditions of continuous work that is not running: Archives and Mirrors; must not know the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.pod_trouble import suspended_message

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod


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


def _idle(reason: Reason, message: str, *, stalled: ConditionUpdate) -> dict[ConditionType, ConditionUpdate]:
    update = ConditionUpdate(False, reason, message)
    return {
        ConditionType.READY: update,
        ConditionType.PROGRESSING: update,
        ConditionType.RECONCILING: update,
        ConditionType.STALLED: stalled,
    }
