"""Owns how what was decided about a GapScan becomes a plan with its status; must not know what was decided, or why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_operator.common.conditions import conditions_with
from gapless_operator.common.plan import Event, EventType, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.reasons import Reason
    from gapless_operator.common.conditions import Said
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.scanning.context import Situation

_SOON_SECONDS = 1.0


def answer(  # noqa: PLR0913 -- the parts of a plan
    situation: Situation,
    updates: Mapping[str, Any],
    said: Mapping[ConditionType, Said],
    *,
    apply: tuple[Manifest, ...] = (),
    delete: tuple[Ref, ...] = (),
    events: tuple[Event, ...] = (),
    until: datetime | None = None,
    soon: bool = False,
) -> Plan:
    """A plan with the status that follows from `updates` and `said`, if it is another one.

    Args:
        situation: what is known.
        updates: fields of the status that change, by their Python names.
        said: conditions that change.
        apply: objects to write.
        delete: objects to delete.
        events: to post.
        until: when to look again at the latest.
        soon: whether to look again right away.
    """
    scan, status, now = situation.scan, situation.scan.status, situation.now
    generation = scan.metadata.generation
    conditions = conditions_with(status.conditions, said, generation=generation, now=now)
    following = situation.schedule.next_after(now) if situation.schedule is not None and not scan.spec.suspend else None
    known = {} if situation.last is None else {"last_attempt": situation.last}
    wanted = GapScanStatus.model_validate(
        {
            **{name: getattr(status, name) for name in GapScanStatus.model_fields},
            **known,
            **updates,
            "observed_generation": generation,
            "conditions": conditions,
            "next_schedule_time": following,
        }
    ).to_dict()
    times = [moment for moment in (until, following) if moment is not None]
    wait = max((min(times) - now).total_seconds(), 0.0) + 0.1 if times else None
    return Plan(
        apply=apply,
        delete=delete,
        status=None if wanted == status.to_dict() else wanted,
        events=events,
        requeue_after_seconds=_SOON_SECONDS if soon else wait,
    )


def warned(situation: Situation, reason: Reason, message: str) -> tuple[Event, ...]:
    """A warning, if the condition does not say the same already."""
    known = condition(situation.scan.status.conditions, ConditionType.STALLED)
    if known is not None and known.status == "True" and known.reason == reason:
        return ()
    return (Event(EventType.WARNING, reason, message),)
