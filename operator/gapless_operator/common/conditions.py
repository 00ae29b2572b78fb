"""How condition updates become the conditions and the events of a resource; must not know any kind.

The conditions mean the same for all kinds and follow kstatus (Flux), Argo CD and ``kubectl wait``: `Stalled` is true
when progress requires a manual change, `Reconciling` while the operator continues or retries, `Ready` when nothing is
left to do. See docs/decisions/0003-what-the-conditions-of-a-resend-say.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition, set_condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Event, EventType


class ConditionUpdate(NamedTuple):
    """A new state of a condition."""

    status: bool | None
    """``None`` for Unknown."""
    reason: Reason | str
    """A string for a reason that another version of the operator wrote."""
    message: str = ""


NOT_STALLED = ConditionUpdate(False, Reason.NOT_STALLED)


def conditions_with(
    before: Iterable[Condition], updates: Mapping[ConditionType, ConditionUpdate], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of a resource with `updates` applied."""
    conditions = tuple(before)
    for kind, (status, reason, message) in updates.items():
        conditions = set_condition(conditions, kind, status, reason, message, generation=generation, now=now)
    return conditions


def transition(
    before: Iterable[Condition], after: Iterable[Condition], *, of: ConditionType, warnings: Iterable[Reason]
) -> tuple[Event, ...]:
    """Return an event if the reason or the status of a condition changed."""
    old, new = condition(before, of), condition(after, of)
    if new is None or (old is not None and (old.reason, old.status) == (new.reason, new.status)):
        return ()
    kind = EventType.WARNING if new.reason in set(warnings) else EventType.NORMAL
    return (Event(kind, new.reason, new.message or new.reason),)
