"""Owns how what was found out about a resource becomes its conditions and its events; must not know any kind.

The conditions mean the same for all kinds and are made for kstatus (Flux), Argo CD and ``kubectl wait``: `Stalled` is
true when only a person can help, `Reconciling` while Gapless itself continues or retries, `Ready` when nothing is
left to do. See docs/decisions/0003-what-the-conditions-of-a-resend-say.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition, set_condition
from gapless_operator.common.plan import Event, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.reasons import Reason


class ConditionUpdate(NamedTuple):
    """The new state of a condition."""

    status: bool | None
    """``None`` for "unknown"."""
    reason: Reason | str
    """A text where it is repeated as another version of the operator wrote it, which may know more reasons."""
    message: str = ""


def conditions_with(
    before: Iterable[Condition], updates: Mapping[ConditionType, ConditionUpdate], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """All conditions of a resource after some of them were updated."""
    conditions = tuple(before)
    for kind, (status, reason, message) in updates.items():
        conditions = set_condition(conditions, kind, status, reason, message, generation=generation, now=now)
    return conditions


def transition(
    before: Iterable[Condition], after: Iterable[Condition], *, of: ConditionType, warnings: Iterable[Reason]
) -> tuple[Event, ...]:
    """The event that tells of a new reason of one condition; none while the reason stays."""
    old, new = condition(before, of), condition(after, of)
    if new is None or (old is not None and (old.reason, old.status) == (new.reason, new.status)):
        return ()
    kind = EventType.WARNING if new.reason in set(warnings) else EventType.NORMAL
    return (Event(kind, new.reason, new.message or new.reason),)
