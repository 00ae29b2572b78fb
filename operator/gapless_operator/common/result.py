"""The result of one step of a reconciler: conditions, status fields, objects, when to reconcile again.

Must not know any kind. A reconciler is a sequence of steps. Each step gets the context and returns a result, or
``None`` if it does not apply; the first result becomes the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
from gapless_operator.common.conditions import ConditionUpdate, conditions_with, transition
from gapless_operator.common.plan import Event, Manifest, Plan, Ref

if TYPE_CHECKING:
    from gapless_api.v1alpha1.model import StatusModel
    from gapless_api.v1alpha1.reasons import Reason
    from gapless_api.v1alpha1.resource import Resource


_MIN_REQUEUE_SECONDS = 1.0


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


class Announced(NamedTuple):
    """The changes of a condition that are events, once each."""

    condition: ConditionType
    warnings: frozenset[Reason]
    """The reasons whose events are warnings."""
    only_warnings: bool = False
    """Whether the other reasons are no events."""


def merged(results: Sequence[Result]) -> Result:
    """Return the result of several kinds of work of one resource, which run at the same time."""
    waits = [result.again_after for result in results if result.again_after is not None]
    seen = [result.observed_at for result in results if result.observed_at is not None]
    return Result(
        conditions={kind: update for result in results for kind, update in result.conditions.items()},
        update={name: value for result in results for name, value in result.update.items()},
        stop=tuple(ref for result in results for ref in result.stop),
        create=tuple(manifest for result in results for manifest in result.create),
        apply=tuple(manifest for result in results for manifest in result.apply),
        delete=tuple(ref for result in results for ref in result.delete),
        events=tuple(event for result in results for event in result.events),
        observed_at=max(seen, default=None),
        again_after=min(waits, default=None),
    )


def plan_of(
    resource: Resource, status: StatusModel, result: Result, *, now: datetime, announced: Announced | None
) -> Plan:
    """Return the plan of a resource; its phase, if it has one, is the reason of its Ready condition.

    Args:
        resource: the observed resource.
        status: the base of the new status; it may be newer than the status of `resource`.
        result: the decisions.
        now: the time of condition transitions.
        announced: the changes of conditions that are events, besides those of the result.
    """
    written: Any = getattr(resource, "status")  # noqa: B009 -- each kind has one, of its own type
    generation = resource.metadata.generation
    conditions = conditions_with(written.conditions, result.conditions, generation=generation, now=now)
    update: dict[str, Any] = {**result.update, "observed_generation": generation, "conditions": conditions}
    if "phase" in type(status).model_fields:
        summary = condition(conditions, ConditionType.READY)
        update["phase"] = summary.reason if summary is not None else None
    after = status.model_copy(update=update)
    # As text, times have whole seconds.
    is_changed = after != written and after.to_status() != written.to_status()
    if is_changed and result.observed_at is not None:
        after = after.model_copy(update={"observed_at": result.observed_at})
    again_after = result.again_after
    return Plan(
        stop=result.stop,
        create=result.create,
        apply=result.apply,
        delete=result.delete,
        status=after.to_status() if is_changed else None,
        events=(*result.events, *_announce(announced, written.conditions, conditions)),
        requeue_after_seconds=None if again_after is None else max(again_after.total_seconds(), _MIN_REQUEUE_SECONDS),
    )


def _announce(
    announced: Announced | None, before: Iterable[Condition], after: Iterable[Condition]
) -> tuple[Event, ...]:
    if announced is None:
        return ()
    events = transition(before, after, of=announced.condition, warnings=announced.warnings)
    return tuple(event for event in events if not announced.only_warnings or event.reason in announced.warnings)
