"""The order of every reconcile of a kind that works in attempts, and how its result becomes a plan.

A pure function from what was observed to a plan, which may be called at any time: after a crash it returns the same
names again, and adopts an attempt that was started and not recorded. Must not know any kind, nor the cluster.

1. A resource that is being deleted starts nothing: what runs is stopped.
2. Each of its works takes its next step (`next_step`).
3. Attempts that are not needed any more are deleted, unless this plan starts or stops one.
4. Pods without an owner are stopped.
5. The status is written if it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from gapless_operator.common.children import running_children
from gapless_operator.common.plan import Plan, Ref
from gapless_operator.common.result import Announced, Result, merged, plan_of
from gapless_operator.lifecycle.tracks import leftovers
from gapless_operator.lifecycle.work import ContextT, Work, next_step

if TYPE_CHECKING:
    from gapless_api.base.schedule import Schedule
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.engines.observed import WorkObserved


_CLOCK_TOLERANCE = timedelta(seconds=0.1)
"""Added to the time of the next reconcile, so that a due time has passed by every clock."""


def with_times(
    context: ContextT, result: Result, schedules: Mapping[str, Schedule | None], *, last: LastAttempt | None
) -> Result:
    """Return the result with the next times of schedules, and the latest attempt.

    Args:
        context: of the resource; while it is suspended, no time follows.
        result: of all works.
        schedules: by field of the status; ``None`` for none. The next reconcile is not later than the next time of any.
        last: the latest attempt, even if a crash prevented its recording; ``None`` for none.
    """
    times = {
        field: None if schedule is None or context.resource.spec.suspend else schedule.next_after(context.now)
        for field, schedule in schedules.items()
    }
    waits = [result.again_after, *(None if at is None else at - context.now for at in times.values())]
    recorded = {} if last is None else {"last_attempt": last}
    return replace(
        result,
        update={**recorded, **result.update, **times},
        again_after=min((wait for wait in waits if wait is not None), default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[ContextT]):
    """What the lifecycle asks of a kind."""

    works: tuple[Work[ContextT], ...]
    announced: Announced | None
    """The changes of conditions that are events, besides those of the steps."""
    finish: Callable[[ContextT, Result], Result] = lambda _, result: result
    """Add to the result of all works what is known of the resource as a whole, such as the next time of a schedule."""
    status: Callable[[ContextT], Any] = lambda context: context.resource.status
    """The base of the new status."""
    superseded: Callable[[ContextT], tuple[Ref, ...]] | None = None
    """Which objects are not needed any more; ``None`` for the `leftovers` of all works."""
    deletes_pods: bool = True
    """Whether the operator may delete pods where the kind is used. Otherwise they end with their Job."""


def reconcile(kind: Kind[ContextT], resource: Any, observed: WorkObserved, context_of: Callable[[], ContextT]) -> Plan:
    """Return what a resource needs next.

    Args:
        kind: what is special about its kind.
        resource: with its last status.
        observed: its children, and the objects that it names.
        context_of: returns the input of the steps, if any is taken.
    """
    if resource.metadata.deleting:
        # A finalizer may keep it for a long time.
        return Plan(stop=observed.running() if kind.deletes_pods else running_children(observed.jobs, ()))
    context = context_of()
    result = merged([next_step(work, context) for work in kind.works])
    if not (result.stop or result.apply):
        # Otherwise the tracks do not show yet what this plan starts or stops.
        tracks = [work.track(context) for work in kind.works]
        delete = leftovers(tracks, observed) if kind.superseded is None else kind.superseded(context)
        result = replace(result, delete=delete)
    if kind.deletes_pods:
        result = replace(result, stop=(*result.stop, *observed.orphans()))
    result = kind.finish(context, result)
    if result.again_after is not None:
        result = replace(result, again_after=result.again_after + _CLOCK_TOLERANCE)
    return plan_of(resource, kind.status(context), result, now=context.now, announced=kind.announced)
