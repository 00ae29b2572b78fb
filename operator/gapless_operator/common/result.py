"""Owns the result of one step of a reconciler: conditions, status fields, objects, when to reconcile again.

Must not know any kind. A reconciler is a sequence of steps. Each step gets the context and returns a result, or
``None`` if it does not apply; the first result becomes the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_operator.common.conditions import conditions_with, transition
from gapless_operator.common.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from gapless_api.v1alpha1.model import StatusModel
    from gapless_api.v1alpha1.reasons import Reason
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.common.conditions import ConditionUpdate
    from gapless_operator.common.plan import Event, Manifest, Ref


_MIN_REQUEUE_SECONDS = 1.0
_StatusT = TypeVar("_StatusT", bound="StatusModel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Decisions about a resource; the objects are those of a `Plan`."""

    conditions: Mapping[ConditionType, ConditionUpdate]
    """Conditions that change."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Status fields that change, by Python name."""
    stop: tuple[Ref, ...] = ()
    create: tuple[Manifest, ...] = ()
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    events: tuple[Event, ...] = ()
    """Events in addition to those of changed conditions."""
    observed_at: datetime | None = None
    """When the progress of the pods was last read; written only with other changes. ``None`` to keep the time."""
    again_after: timedelta | None = None
    """The latest time for the next reconcile; ``None`` to wait for an event."""


def with_observation(status: _StatusT, observed_at: datetime | None) -> _StatusT:
    """Return a status that is about to be written with the time of the last look, if there was one."""
    return status if observed_at is None else status.model_copy(update={"observed_at": observed_at})


def plan_of(
    resource: Resource, status: StatusModel, result: Result, *, now: datetime, warnings: Iterable[Reason]
) -> Plan:
    """Return the plan of a resource whose phase is the reason of its Ready condition.

    Args:
        resource: the observed resource.
        status: the base of the new status; it may be newer than the status of `resource`.
        result: the decisions.
        now: the time of condition transitions.
        warnings: the reasons whose events are warnings.
    """
    written = getattr(resource, "status")  # noqa: B009 -- each kind has one, of its own type
    generation = resource.metadata.generation
    conditions = conditions_with(written.conditions, result.conditions, generation=generation, now=now)
    summary = condition(conditions, ConditionType.READY)
    after = status.model_copy(
        update={
            **result.update,
            "observed_generation": generation,
            "conditions": conditions,
            "phase": summary.reason if summary is not None else None,
        }
    )
    again_after = result.again_after
    return Plan(
        stop=result.stop,
        create=result.create,
        apply=result.apply,
        delete=result.delete,
        status=with_observation(after, result.observed_at).to_status() if after != written else None,
        events=(
            *result.events,
            *transition(written.conditions, conditions, of=ConditionType.READY, warnings=warnings),
        ),
        requeue_after_seconds=None if again_after is None else max(again_after.total_seconds(), _MIN_REQUEUE_SECONDS),
    )
