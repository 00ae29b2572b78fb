"""Owns what happens to a GapScan next: begin an attempt, wait, conclude it, tidy up, or say why not.

Must not know the cluster, the clock or how an engine works: all of it is handed in, and the answer is a plan. Called as
often as anybody likes. Every step is one plan whose status is written last, so a crash anywhere repeats a step under
the same names; an attempt that began and was not recorded is found again and taken over.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import LastAttempt
from gapless_operator.common.conditions import Said
from gapless_operator.common.plan import Event, EventType, Plan
from gapless_operator.common.references import NotFound
from gapless_operator.engines.choice import engine_for, fell_back, ref_of
from gapless_operator.engines.engine import Phase, Run
from gapless_operator.scanning.comparison import older_bundle, question
from gapless_operator.scanning.conclusion import concluded
from gapless_operator.scanning.conditions import at_work, judged, not_stalled, stuck
from gapless_operator.scanning.context import Situation, situation_of
from gapless_operator.scanning.history import outdated
from gapless_operator.scanning.manifests import bundle_place, command, settings_map, settings_name, work_digest
from gapless_operator.scanning.outcome import Ending, deadline_of, ending_of
from gapless_operator.scanning.permission import refusal
from gapless_operator.scanning.plan_builder import answer, warned
from gapless_operator.scanning.progress import WRITE_EVERY, progress_while_reading
from gapless_operator.scanning.scheduling import Due, acted_upon, due, missed, next_scheduled

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.plan import Ref
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.scanning.context import GapScanObserved

_FELL_BACK = "engine.type is Auto and this cluster has no Spark operator, so the scan runs as a Job, without executors."
_LOOK_AGAIN = timedelta(seconds=10)
"""At the state that is in use, although its release is an event, too."""


def reconcile_gapscan(scan: GapScan, observed: GapScanObserved, now: datetime, *, program: Program) -> Plan:
    """Say what to do about a GapScan.

    Args:
        scan: the resource, with its status as it was written last.
        observed: what belongs to it.
        now: the time.
        program: what the pods of scans are made of, unless the spec says otherwise.
    """
    if scan.metadata.deleting:
        return Plan()  # its children go with it
    situation = situation_of(scan, observed, now, program=program)
    if situation.last is not None and situation.last.outcome is None:
        return _going_on(situation, situation.last)
    wanted, wait_until = due(situation)
    if wanted is not None:
        in_the_way = situation.user_of_the_state()
        return _begun(situation, wanted) if in_the_way is None else _waiting(situation, in_the_way)
    return _at_rest(situation, wait_until)


def _going_on(situation: Situation, last: LastAttempt) -> Plan:
    """An attempt is running as far as the status knows."""
    engine = situation.scan.spec.engine
    attempt = situation.attempt(last.name)
    if attempt is None or (attempt.meta.deleting and not attempt.ended):
        gone = Ending(Reason.STOPPED, f"The {last.engine} {last.name} was deleted before it ended.")
        return concluded(situation, last, gone)
    ending = ending_of(attempt, engine, situation.now) or _replaced(situation, attempt)
    if ending is not None:
        return concluded(situation, last, ending, attempt)
    # A schedule that fell due meanwhile is left out (Forbid) or has replaced the attempt above.
    progress = progress_while_reading(situation.scan.status.progress, attempt, situation.now)
    look_again = situation.now + WRITE_EVERY if attempt.phase is Phase.RUNNING else None
    return answer(
        situation,
        {"last_schedule_time": acted_upon(situation, attempt), "progress": progress},
        at_work(situation, _how_far(situation, attempt), attempt),
        delete=_leftovers(situation, last.name),
        until=min(filter(None, (deadline_of(attempt, engine), look_again)), default=None),
        soon=attempt.ended,
    )


def _how_far(situation: Situation, attempt: Attempt) -> str:
    if attempt.ended:
        return f"The {attempt.engine} {attempt.name} has ended; its log is being read."
    state = "is running" if attempt.phase is not Phase.PENDING else "is being started"
    trouble = f" {attempt.trouble.message}" if attempt.trouble is not None else ""
    why = f" {_FELL_BACK}" if fell_back(situation.scan.spec.engine, attempt.engine) else ""
    return f"The {attempt.engine} {attempt.name} {state}.{why}{trouble}"


def _replaced(situation: Situation, attempt: Attempt) -> Ending | None:
    """End an attempt early whose answer nobody wants any more."""
    scan, places = situation.scan, situation.places
    if isinstance(places, NotFound):
        return Ending(places.reason, f"{attempt.name} was ended. {places.message}")
    if scan.spec.suspend:
        return None
    if scan.spec.schedule is None:
        if attempt.work != work_digest(scan, places):
            return Ending(Reason.STOPPED, f"{attempt.name} was ended because the spec asks for something else now.")
    elif scan.spec.schedule.concurrency_policy == "Replace" and next_scheduled(situation) is not None:
        return Ending(Reason.STOPPED, f"{attempt.name} was ended because the next scan is due (Replace).")
    return None


def _waiting(situation: Situation, in_the_way: str) -> Plan:
    """An attempt is due, and what belongs to one of before still uses the state."""
    message = f"The next scan begins when {in_the_way} is gone, because two must not use source.events.state at once."
    said = {ConditionType.RECONCILING: Said(True, Reason.SCANNING, message), ConditionType.STALLED: not_stalled()}
    return answer(situation, {}, said, delete=_leftovers(situation), until=situation.now + _LOOK_AGAIN)


def _begun(situation: Situation, wanted: Due) -> Plan:
    """Write an attempt and what it needs."""
    scan, now, places = situation.scan, situation.now, situation.places
    if isinstance(places, NotFound):
        return answer(
            situation,
            {},
            stuck(places.reason, places.message),
            delete=_leftovers(situation),
            events=warned(situation, places.reason, places.message),
            until=now + _LOOK_AGAIN,
        )
    not_allowed = refusal(scan, situation.program)
    if not_allowed:
        return answer(
            situation,
            {},
            stuck(Reason.BAD_CONFIGURATION, not_allowed),
            delete=_leftovers(situation),
            events=warned(situation, Reason.BAD_CONFIGURATION, not_allowed),
        )
    engine = engine_for(scan.spec.engine, spark_operator=situation.observed.spark_operator)
    if engine is None:
        message = (
            "engine.type is SparkApplication, and this cluster does not know that kind; install the Spark "
            "operator, or set engine.type to Auto or Job."
        )
        return answer(
            situation,
            {},
            stuck(Reason.ENGINE_UNAVAILABLE, message),
            delete=_leftovers(situation),
            events=warned(situation, Reason.ENGINE_UNAVAILABLE, message),
        )
    older = older_bundle(scan, places)
    run = Run(
        name=wanted.name,
        scheduled=wanted.scheduled,
        work=work_digest(scan, places),
        command=command(scan),
        settings_map=settings_name(wanted.name),
        question=question(scan, places),
        output=bundle_place(scan, places, wanted.name).written(),
        places=places,
        older_entry=older.entry if older is not None else None,
    )
    last = LastAttempt(name=wanted.name, engine=engine.name, generation=scan.metadata.generation, started=now)
    message = f"The {engine.name} {wanted.name} is being started."
    events = [Event(EventType.NORMAL, Reason.SCANNING, message)]
    if fell_back(scan.spec.engine, engine.name):
        message = f"{message} {_FELL_BACK}"
        before = situation.last
        if before is None or (before.engine, before.generation) != (engine.name, scan.metadata.generation):
            events.append(Event(EventType.NORMAL, Reason.NO_SPARK_OPERATOR, _FELL_BACK))
    updates: dict[str, Any] = {"last_attempt": last, "progress": None}
    if wanted.scheduled is not None:
        updates["last_schedule_time"] = wanted.scheduled
    return answer(
        situation,
        updates,
        at_work(situation, message),
        apply=(settings_map(scan, places, wanted.name), engine.manifest(scan, run, situation.program)),
        events=tuple(events),
        until=now + timedelta(seconds=scan.spec.engine.start_deadline_seconds),
    )


def _at_rest(situation: Situation, wait_until: datetime | None) -> Plan:
    """Nothing runs and nothing is due."""
    problem = situation.schedule_error
    if problem:
        return answer(
            situation,
            {},
            stuck(Reason.BAD_CONFIGURATION, problem),
            delete=_leftovers(situation),
            events=warned(situation, Reason.BAD_CONFIGURATION, problem),
        )
    updates: dict[str, Any] = {}
    events: tuple[Event, ...] = ()
    too_late = missed(situation)
    if too_late is not None:
        updates["last_schedule_time"] = too_late
        message = f"The scan of {too_late:%Y-%m-%d %H:%M} UTC was left out: it is past startingDeadlineSeconds."
        events = (Event(EventType.WARNING, "ScanMissed", message),)
    said = judged(situation, situation.last)
    if situation.scan.spec.suspend:
        message = "spec.suspend is true: no scans begin until it is false."
        said[ConditionType.RECONCILING] = Said(False, Reason.SUSPENDED, message)
    return answer(situation, updates, said, delete=_leftovers(situation), events=events, until=wait_until)


def _leftovers(situation: Situation, *keep: str) -> tuple[Ref, ...]:
    return outdated(
        situation.scan,
        [attempt for attempt in situation.attempts if attempt.name not in keep],
        situation.observed.config_maps,
        keep=keep,
        ref=ref_of,
    )
