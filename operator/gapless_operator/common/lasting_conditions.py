"""Owns the conditions of work that does not end, where nothing runs: Archives and Mirrors.

Must not know which work, nor why nothing runs.
"""

from __future__ import annotations

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate


def suspended(message: str) -> dict[ConditionType, ConditionUpdate]:
    """spec.suspend is true."""
    return _idle(Reason.SUSPENDED, message, stalled=ConditionUpdate(False, Reason.NOT_STALLED))


def blocked(reason: Reason, message: str) -> dict[ConditionType, ConditionUpdate]:
    """Nothing can begin before a person has acted."""
    return _idle(reason, message, stalled=ConditionUpdate(True, reason, message))


def _idle(reason: Reason, message: str, *, stalled: ConditionUpdate) -> dict[ConditionType, ConditionUpdate]:
    update = ConditionUpdate(False, reason, message)
    return {
        ConditionType.READY: update,
        ConditionType.PROGRESSING: update,
        ConditionType.RECONCILING: update,
        ConditionType.STALLED: stalled,
    }
