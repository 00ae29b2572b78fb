"""The life of an attempt: it is stopped, ends, is watched, or the next one starts, in this order.

Must not know any kind: a kind describes each of its works with a `Work`. What must not run is stopped before anything
else is decided, so that an invalid spec stops its attempt as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound
from gapless_operator.engines.choice import ref_of
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.lifecycle.tracks import Track, check_again_after, ended, must_end, own_end

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.common.refusal import Refusal
    from gapless_operator.common.result import Result
    from gapless_operator.lifecycle.context import Context

SOON = timedelta(seconds=0.9)
"""When to reconcile again after an end was recorded, or while a log is being read."""
_LOOK_AT_PENDING_EVERY = timedelta(seconds=30)
"""How often to look, without an event, at an attempt whose pod has not started."""
ContextT = TypeVar("ContextT", bound="Context[Any, Any]")
Check = Callable[[ContextT, "Attempt"], "Ending | None"]
"""Why a running attempt must be stopped; ``None`` if it may run."""


class Deadlines(NamedTuple):
    """How long an attempt may take to start, and how long it may run."""

    start_seconds: int
    run_seconds: int | None = None
    """``None`` for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[ContextT]):
    """One kind of work of a resource, such as archiving, in the order in which `next_step` asks."""

    track: Callable[[ContextT], Track]
    """The attempts at this work."""
    must_stop: tuple[Check[ContextT], ...]
    """Why the running attempt must be stopped; the first reason counts."""
    deadlines: Callable[[ContextT], Deadlines]
    timed: Callable[[ContextT, Attempt], Attempt | None] = lambda _, attempt: attempt
    """The attempt whose age counts for the deadlines; ``None`` if something else replaces its pods."""
    end: Callable[[ContextT, Attempt], Ending]
    """How an attempt has ended by itself, once its log was read."""
    record: Callable[[ContextT, Ending, LastAttempt, Attempt | None], Result]
    """What follows an end: the conditions and the status, with the attempt as it is recorded. The attempt is ``None``
    if it does not exist any more."""
    watch: Callable[[ContextT, Attempt], Result]
    """What the running attempt reports."""
    look_every: timedelta
    """How often to look at a running attempt without an event."""
    rest_or_start: Callable[[ContextT], Result]
    """The next attempt if one is due and may start, or why none runs."""


def next_step(work: Work[ContextT], context: ContextT) -> Result:
    """Return the next step of one kind of work."""
    track = work.track(context)
    running, attempt = track.running, track.current
    if running is None:
        return work.rest_or_start(context)
    ending = _reason_to_stop(work, context, attempt) or own_end(
        track, context.now, end_of=lambda a: work.end(context, a)
    )
    if ending is not None:
        result = work.record(context, ending, ended(running, ending, attempt, context.now), attempt)
        is_left = attempt is not None and not attempt.ended and not attempt.meta.deleting
        return replace(result, stop=(ref_of(attempt),) if attempt is not None and is_left else (), again_after=SOON)
    if attempt is None:  # `own_end` says how an attempt ended that does not exist any more.
        raise ValueError(running.name)
    return replace(work.watch(context, attempt), again_after=_look_again_after(work, context, attempt))


def _reason_to_stop(work: Work[ContextT], context: ContextT, attempt: Attempt | None) -> Ending | None:
    if attempt is None or attempt.ended or attempt.meta.deleting:
        return None
    for check in work.must_stop:
        if (ending := check(context, attempt)) is not None:
            return ending
    timed, (start, run) = work.timed(context, attempt), work.deadlines(context)
    return None if timed is None else must_end(timed, start_seconds=start, run_seconds=run, now=context.now)


def _look_again_after(work: Work[ContextT], context: ContextT, attempt: Attempt) -> timedelta:
    if attempt.ended:
        return SOON
    timed, (start, run) = work.timed(context, attempt), work.deadlines(context)
    if timed is None:
        return work.look_every
    after = check_again_after(timed, start_seconds=start, run_seconds=run, now=context.now)
    every = _LOOK_AT_PENDING_EVERY if attempt.phase is Phase.PENDING else work.look_every
    return every if after is None else max(min(after, every), timedelta())


def reference_is_gone(context: Context[Any, Any], attempt: Attempt) -> Ending | None:
    """Stop an attempt when an object that the spec refers to cannot be used any more."""
    access = context.access
    if not isinstance(access, NotFound):
        return None
    return Ending(access.reason, f"{attempt.name} was stopped. {access.message}")


def is_suspended(context: Context[Any, Any], attempt: Attempt) -> Ending | None:
    """Stop an attempt while spec.suspend is true."""
    if not context.resource.spec.suspend:
        return None
    return Ending(Reason.SUSPENDED, f"{attempt.name} was stopped because spec.suspend is true.")


def would_be_refused(refusal_now: Callable[[ContextT], Refusal | None]) -> Check[ContextT]:
    """Return the check that stops an attempt when the platform team does not allow it any more.

    Args:
        refusal_now: the checks that also decide whether an attempt may start.
    """

    def check(context: ContextT, attempt: Attempt) -> Ending | None:
        refusal = refusal_now(context)
        return None if refusal is None else Ending(Reason.STOPPED, refusal.stops(attempt.name))

    return check


def has_changed(
    is_current: Callable[[ContextT, Attempt], bool],
    what: str = "the spec, an object that it names, or the image",
) -> Check[ContextT]:
    """Return the check that stops an attempt at work that is no longer wanted.

    Args:
        is_current: whether an attempt does what the spec and the objects that it names say now.
        what: what may have changed otherwise, for the message.
    """

    def check(context: ContextT, attempt: Attempt) -> Ending | None:
        if is_current(context, attempt):
            return None
        return Ending(Reason.STOPPED, f"{attempt.name} was stopped because {what} has changed.")

    return check


def is_replaced(is_due: Callable[[ContextT], bool], what: str) -> Check[ContextT]:
    """Return the check that stops an attempt when the next one is due, if the schedule says so.

    Args:
        is_due: whether the next attempt is due.
        what: what it is, for the message.
    """

    def check(context: ContextT, attempt: Attempt) -> Ending | None:
        schedule = context.resource.spec.schedule
        if schedule is None or schedule.concurrency_policy != "Replace" or not is_due(context):
            return None
        return Ending(Reason.STOPPED, f"{attempt.name} was stopped because the next {what} is due (Replace).")

    return check
