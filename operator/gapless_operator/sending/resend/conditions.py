"""Owns the sets of conditions that a Resend can have, one function for each kind of context.

Must not know how a context comes about. docs/decisions/0003-what-the-conditions-of-a-resend-say.md gives the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.work_conditions import (
    failed,
    finished,
    of_work,
    planned,
    refused,
    suspended,
    waiting_for,
    working,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.v1alpha1.conditions import ConditionType

__all__ = ["entering_ledger", "failed", "finished", "planned", "refused", "suspended", "waiting_for", "working"]


def entering_ledger(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """All is done; the Resend succeeds only when the Diode's ledger has it."""
    waiting = f"{message} The Diode's ledger is being written."
    return of_work(
        ready=ConditionUpdate(False, Reason.SENDING, waiting),
        reconciling=ConditionUpdate(True, reason, waiting),
        succeeded=ConditionUpdate(None, reason, message),
    )
