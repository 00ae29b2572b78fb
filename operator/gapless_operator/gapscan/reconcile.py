"""Owns what happens to a GapScan next: begin an attempt, wait, conclude it, tidy up, or say why not.

Must not know the cluster, the clock or how an engine works: all of it is handed in, and the answer is a plan. Called as
often as anybody likes. Every step is one plan whose status is written last, so a crash anywhere repeats a step under
the same names; an attempt that began and was not recorded is found again and taken over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.gapscan import Change, GapScan, GapScanStatus, LastAttempt
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.engines.engine import Attempt, Phase, Run, SparkEngine
from gapless_operator.engines.job import JobEngine, job_attempts
from gapless_operator.engines.sparkapplication import (
    ObservedSparkApplication,
    SparkApplicationEngine,
    application_attempts,
)
from gapless_operator.gapscan.history import outdated
from gapless_operator.gapscan.manifests import attempt_name, command, settings_map, settings_name, work_digest
from gapless_operator.gapscan.result import ResultError, findings_of
from gapless_operator.gapscan.schedule import Schedule, ScheduleError, minute_of
from gapless_operator.gapscan.verdict import (
    ANSWERED,
    FINAL,
    NEED_A_PERSON,
    TROUBLE_GRACE,
    Ending,
    deadline_of,
    ending_of,
)
from gapless_operator.plan import Event, EventType, Plan
from gapless_operator.standing import Said, conditions_with

if TYPE_CHECKING:
    from gapless_operator.observed import ObservedChild, ObservedJob, ObservedPod
    from gapless_operator.settings import Program

_SOON_SECONDS = 1.0
_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=30), timedelta(minutes=30)
_ENGINES: dict[str, SparkEngine] = {"Job": JobEngine(), "SparkApplication": SparkApplicationEngine()}
_UNSCHEDULED = re.compile(r"-g(\d+)-(\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GapScanObserved:
    """What a GapScan's reconciler is shown."""

    spark_operator: bool = False
    """Whether the cluster knows SparkApplications."""
    jobs: tuple[ObservedJob, ...] = ()
    applications: tuple[ObservedSparkApplication, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    """Of both, drivers with their logs."""
    config_maps: tuple[ObservedChild, ...] = ()


@dataclass(frozen=True, slots=True)
class _Due:
    """An attempt that should begin."""

    name: str
    scheduled: datetime | None


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
    return _Step(scan, observed, now, program).plan()


class _Step:
    """One look at one GapScan."""

    def __init__(self, scan: GapScan, observed: GapScanObserved, now: datetime, program: Program) -> None:
        self._scan, self._observed, self._now, self._program = scan, observed, now, program
        attempts = [
            *job_attempts(observed.jobs, observed.pods, now),
            *application_attempts(observed.applications, observed.pods, now),
        ]
        self._attempts = sorted(attempts, key=lambda attempt: (attempt.meta.created, attempt.name))
        self._last = self._recorded(scan.status.last_attempt)
        self._schedule: Schedule | None = None
        self._schedule_error = ""
        if scan.spec.schedule is not None:
            try:
                self._schedule = Schedule.parse(scan.spec.schedule.cron, scan.spec.schedule.time_zone)
            except ScheduleError as error:
                self._schedule_error = str(error)

    def _recorded(self, last: LastAttempt | None) -> LastAttempt | None:
        """The attempt that began last: the one of the status, or a newer one that a crash kept from getting there."""
        known = {attempt.name: attempt for attempt in self._attempts}
        if last is not None and last.name in known:
            # The API server's clock, not ours, so that attempts can be compared.
            last = last.model_copy(update={"started": known[last.name].meta.created})
        newest = self._attempts[-1] if self._attempts else None
        if newest is None or newest.meta.deleting or (last is not None and newest.name == last.name):
            return last
        if last is not None and last.started is not None and newest.meta.created <= last.started:
            return last
        return LastAttempt(
            name=newest.name, engine=newest.engine, generation=newest.generation, started=newest.meta.created
        )

    # ------------------------------------------------------------------------------------------------- steps

    def plan(self) -> Plan:
        if self._last is not None and self._last.outcome is None:
            return self._going_on(self._last)
        due, wait_until = self._due()
        if due is not None:
            return self._begin(due)
        return self._at_rest(wait_until)

    def _going_on(self, last: LastAttempt) -> Plan:
        """An attempt is running as far as the status knows."""
        attempt = next((attempt for attempt in self._attempts if attempt.name == last.name), None)
        if attempt is None or (attempt.meta.deleting and not attempt.ended):
            return self._conclude(
                last, Ending(Reason.STOPPED, f"The {last.engine} {last.name} was deleted before it ended.")
            )
        ending = ending_of(attempt, self._scan.spec.engine, self._now) or self._replaced(attempt)
        if ending is not None:
            return self._conclude(last, ending, attempt)
        state = "is running" if attempt.phase is not Phase.PENDING else "is being started"
        message = f"The {attempt.engine} {attempt.name} {state}."
        if attempt.trouble is not None:
            message = f"{message} {attempt.trouble.message}"
        if attempt.ended:
            message = f"The {attempt.engine} {attempt.name} has ended; its log is being read."
        said = {
            ConditionType.RECONCILING: Said(True, Reason.SCANNING, message),
            ConditionType.STALLED: self._stalled_by(attempt),
        }
        if condition(self._scan.status.conditions, ConditionType.READY) is None:
            said[ConditionType.READY] = Said(None, Reason.NEVER_SCANNED, "The first scan has not ended yet.")
        # A schedule that fell due meanwhile is left out (Forbid) or has replaced the attempt above.
        return self._answer(
            {"last_attempt": last, "last_schedule_time": self._acted_upon(attempt)},
            said,
            delete=self._leftovers(keep=last.name),
            until=deadline_of(attempt, self._scan.spec.engine),
            soon=attempt.ended,
        )

    def _replaced(self, attempt: Attempt) -> Ending | None:
        """End an attempt early whose answer nobody wants any more."""
        scan = self._scan
        if scan.spec.suspend:
            return None
        if scan.spec.schedule is None:
            if attempt.generation != scan.metadata.generation and attempt.work != work_digest(scan):
                return Ending(Reason.STOPPED, f"{attempt.name} was ended because the spec asks for something else now.")
        elif scan.spec.schedule.concurrency_policy == "Replace" and self._next_scheduled() is not None:
            return Ending(Reason.STOPPED, f"{attempt.name} was ended because the next scan is due (Replace).")
        return None

    def _begin(self, due: _Due) -> Plan:
        """Write an attempt and what it needs."""
        engine = self._engine()
        if engine is None:
            message = (
                "engine.type is SparkApplication, and this cluster does not know that kind; install the Spark "
                "operator, or set engine.type to Auto or Job."
            )
            return self._answer(
                {},
                {
                    ConditionType.READY: Said(False, Reason.ENGINE_UNAVAILABLE, message),
                    ConditionType.RECONCILING: Said(False, Reason.ENGINE_UNAVAILABLE, message),
                    ConditionType.STALLED: Said(True, Reason.ENGINE_UNAVAILABLE, message),
                },
                events=self._told(Reason.ENGINE_UNAVAILABLE, message),
            )
        settings = settings_map(self._scan, due.name)
        run = Run(
            name=due.name,
            scheduled=due.scheduled,
            work=work_digest(self._scan),
            command=command(self._scan),
            settings_map=settings_name(due.name),
        )
        last = LastAttempt(
            name=due.name, engine=engine.name, generation=self._scan.metadata.generation, started=self._now
        )
        message = f"The {engine.name} {due.name} is being started."
        said = {
            ConditionType.RECONCILING: Said(True, Reason.SCANNING, message),
            ConditionType.STALLED: self._not_stalled(),
        }
        if condition(self._scan.status.conditions, ConditionType.READY) is None:
            said[ConditionType.READY] = Said(None, Reason.NEVER_SCANNED, "The first scan has not ended yet.")
        updates: dict[str, Any] = {"last_attempt": last}
        if due.scheduled is not None:
            updates["last_schedule_time"] = due.scheduled
        plan = self._answer(
            updates,
            said,
            events=(Event(EventType.NORMAL, Reason.SCANNING, message),),
            until=self._now + timedelta(seconds=self._scan.spec.engine.start_deadline_seconds),
        )
        return Plan(
            apply=(settings, engine.manifest(self._scan, run, self._program)),
            status=plan.status,
            events=plan.events,
            requeue_after_seconds=plan.requeue_after_seconds,
        )

    def _conclude(self, last: LastAttempt, ending: Ending, attempt: Attempt | None = None) -> Plan:
        """Record how an attempt ended; what it leaves behind is tidied up in the next step."""
        scan, status = self._scan, self._scan.status
        updates: dict[str, Any] = {}
        apply: tuple[Any, ...] = ()
        if ending.result is not None:
            try:
                found = findings_of(scan, last.name, ending.result)
            except ResultError as error:
                ending = Ending(error.reason, str(error))
            else:
                apply = () if found.bundle_map is None else (found.bundle_map,)
                updates = {
                    "last_scan_time": (attempt.finished if attempt is not None else None) or self._now,
                    "missing_events": found.missing_events,
                    "missing_ranges": found.missing_ranges,
                    "partitions": found.partitions,
                    "change": None
                    if status.missing_events is None
                    else Change(
                        events=found.missing_events - status.missing_events,
                        ranges=found.missing_ranges - (status.missing_ranges or 0),
                    ),
                    "bundle": found.bundle,
                    "resend_manifest": found.resend,
                }
        finished = (attempt.finished if attempt is not None and attempt.ended else None) or self._now
        updates["last_attempt"] = last.model_copy(
            update={"finished": finished, "outcome": str(ending.reason), "message": ending.message}
        )
        if attempt is not None:
            updates["last_schedule_time"] = self._acted_upon(attempt)
        plan = self._answer(updates, self._judged(updates["last_attempt"]), soon=True)
        kind = EventType.NORMAL if ending.reason in ANSWERED - {Reason.UNREADABLE_RECORDS} else EventType.WARNING
        return Plan(
            apply=apply,
            status=plan.status,
            events=(Event(kind, ending.reason, ending.message),),
            requeue_after_seconds=_SOON_SECONDS,
        )

    def _at_rest(self, wait_until: datetime | None) -> Plan:
        """Nothing runs and nothing is due."""
        scan = self._scan
        if self._schedule_error:
            said = {
                ConditionType.READY: Said(False, Reason.BAD_CONFIGURATION, self._schedule_error),
                ConditionType.RECONCILING: Said(False, Reason.BAD_CONFIGURATION, self._schedule_error),
                ConditionType.STALLED: Said(True, Reason.BAD_CONFIGURATION, self._schedule_error),
            }
            return self._answer(
                {},
                said,
                delete=self._leftovers(),
                events=self._told(Reason.BAD_CONFIGURATION, self._schedule_error),
            )
        updates: dict[str, Any] = {}
        events: tuple[Event, ...] = ()
        missed = self._missed()
        if missed is not None:
            updates["last_schedule_time"] = missed
            message = f"The scan of {missed:%Y-%m-%d %H:%M} UTC was left out: it is past startingDeadlineSeconds."
            events = (Event(EventType.WARNING, "ScanMissed", message),)
        said = self._judged(self._last)
        if scan.spec.suspend:
            said[ConditionType.RECONCILING] = Said(
                False, Reason.SUSPENDED, "spec.suspend is true: no scans begin until it is false."
            )
        return self._answer(updates, said, delete=self._leftovers(), events=events, until=wait_until)

    # --------------------------------------------------------------------------------------------- questions

    def _due(self) -> tuple[_Due | None, datetime | None]:
        """The attempt that should begin now; or when to ask again."""
        scan, last = self._scan, self._last
        if scan.spec.suspend or self._schedule_error:
            return None, None
        if scan.spec.schedule is not None:
            moment = self._next_scheduled()
            if moment is not None:
                return _Due(attempt_name(scan, str(minute_of(moment))), moment), None
            return None, self._schedule.next_after(self._now) if self._schedule is not None else None
        generation = scan.metadata.generation
        if last is None or last.generation != generation:
            return _Due(attempt_name(scan, f"g{generation}-1"), None), None
        retry = self._retry_at(last)
        if retry is None or retry > self._now:
            return None, retry
        return _Due(attempt_name(scan, f"g{generation}-{_number(last) + 1}"), None), None

    def _retry_at(self, last: LastAttempt) -> datetime | None:
        """When a scan without a schedule is tried again; ``None`` when it has answered or cannot."""
        if self._scan.spec.schedule is not None or last.outcome is None or last.finished is None:
            return None
        reason = _reason(last)
        if reason in ANSWERED or reason in FINAL or last.generation != self._scan.metadata.generation:
            return None
        pause: timedelta = min(_FIRST_RETRY * 2 ** min(_number(last) - 1, 16), _LAST_RETRY)
        return last.finished + pause

    def _next_scheduled(self) -> datetime | None:
        """The time of the schedule that has come and was not acted upon, unless it is too late for it."""
        moment = self._latest_scheduled()
        return None if moment is None or self._too_late(moment) else moment

    def _missed(self) -> datetime | None:
        """A time of the schedule for which it is too late."""
        moment = None if self._scan.spec.suspend else self._latest_scheduled()
        return moment if moment is not None and self._too_late(moment) else None

    def _latest_scheduled(self) -> datetime | None:
        if self._schedule is None:
            return None
        acted = [self._scan.metadata.creation_timestamp]
        if self._scan.status.last_schedule_time is not None:
            acted.append(self._scan.status.last_schedule_time)
        elif self._last is not None and self._last.started is not None:
            acted.append(self._last.started)  # the schedule came later than the first scan
        acted += [attempt.scheduled for attempt in self._attempts if attempt.scheduled is not None]
        return self._schedule.latest_until(self._now, after=max(acted))

    def _too_late(self, moment: datetime) -> bool:
        schedule = self._scan.spec.schedule
        deadline = schedule.starting_deadline_seconds if schedule is not None else None
        return deadline is not None and self._now - moment > timedelta(seconds=deadline)

    def _acted_upon(self, attempt: Attempt) -> datetime | None:
        """The time of the schedule that is done with, once `attempt` is recorded."""
        acted = [moment for moment in (self._scan.status.last_schedule_time, attempt.scheduled) if moment is not None]
        return max(acted, default=None)

    def _engine(self) -> SparkEngine | None:
        wanted = self._scan.spec.engine.type
        if wanted == "Auto":
            wanted = "SparkApplication" if self._observed.spark_operator else "Job"
        if wanted == "SparkApplication" and not self._observed.spark_operator:
            return None
        return _ENGINES[wanted]

    def _leftovers(self, *, keep: str = "") -> tuple[Any, ...]:
        return outdated(
            self._scan,
            [attempt for attempt in self._attempts if attempt.name != keep],
            self._observed.config_maps,
            keep=keep,
            ref=lambda attempt: _ENGINES[attempt.engine].ref(attempt),
        )

    # ----------------------------------------------------------------------------------------------- answers

    def _judged(self, last: LastAttempt | None) -> dict[ConditionType, Said]:
        """The conditions that follow from the last attempt, when nothing runs."""
        if last is None or last.outcome is None:
            waiting = "The first scan waits for its time."
            return {
                ConditionType.READY: Said(None, Reason.NEVER_SCANNED, "There was no scan yet."),
                ConditionType.RECONCILING: Said(False, Reason.SCHEDULED, waiting),
                ConditionType.STALLED: self._not_stalled(),
            }
        reason, message = _reason(last), last.message or ""
        if reason in ANSWERED:
            return {
                ConditionType.READY: Said(True, reason, message),
                ConditionType.RECONCILING: self._settled(),
                ConditionType.STALLED: self._not_stalled(),
            }
        retry = self._retry_at(last)
        said = {ConditionType.READY: Said(False, reason, message), ConditionType.RECONCILING: self._settled()}
        if retry is not None:
            again = f"It is tried again at {retry:%H:%M:%S} UTC."
            said[ConditionType.RECONCILING] = Said(True, reason, again)
        needs_a_person = reason in NEED_A_PERSON or (retry is None and self._scan.spec.schedule is None)
        said[ConditionType.STALLED] = Said(True, reason, message) if needs_a_person else self._not_stalled()
        return said

    def _settled(self) -> Said:
        if self._schedule is not None:
            following = self._schedule.next_after(self._now)
            when = f"The next scan is due at {following:%Y-%m-%d %H:%M} UTC." if following is not None else ""
            return Said(False, Reason.SCHEDULED, when)
        return Said(False, Reason.SETTLED)

    def _not_stalled(self) -> Said:
        return Said(False, Reason.NOT_STALLED)

    def _stalled_by(self, attempt: Attempt) -> Said:
        """Whether a person must act for an attempt to start; the attempt waits for that until its deadline."""
        trouble = attempt.trouble
        if trouble is None or trouble.reason not in NEED_A_PERSON or self._now - attempt.meta.created < TROUBLE_GRACE:
            return self._not_stalled()
        return Said(True, trouble.reason, trouble.message)

    def _told(self, reason: Reason, message: str) -> tuple[Event, ...]:
        """A warning, if the condition does not say the same already."""
        known = condition(self._scan.status.conditions, ConditionType.STALLED)
        if known is not None and known.status == "True" and known.reason == reason:
            return ()
        return (Event(EventType.WARNING, reason, message),)

    def _answer(  # noqa: PLR0913 -- the parts of a plan
        self,
        updates: dict[str, Any],
        said: dict[ConditionType, Said],
        *,
        delete: tuple[Any, ...] = (),
        events: tuple[Event, ...] = (),
        until: datetime | None = None,
        soon: bool = False,
    ) -> Plan:
        """A plan with the status that follows from `updates` and `said`, if it is another one."""
        scan, status = self._scan, self._scan.status
        generation = scan.metadata.generation
        conditions = conditions_with(status.conditions, said, generation=generation, now=self._now)
        following = (
            self._schedule.next_after(self._now) if self._schedule is not None and not scan.spec.suspend else None
        )
        if "last_attempt" not in updates and self._last is not None:
            updates = {"last_attempt": self._last, **updates}
        wanted = GapScanStatus.model_validate(
            {
                **{name: getattr(status, name) for name in GapScanStatus.model_fields},
                **updates,
                "observed_generation": generation,
                "conditions": conditions,
                "next_schedule_time": following,
            }
        ).to_dict()
        times = [moment for moment in (until, following) if moment is not None]
        wait = max((min(times) - self._now).total_seconds(), 0.0) + 0.1 if times else None
        return Plan(
            delete=delete,
            status=None if wanted == status.to_dict() else wanted,
            events=events,
            requeue_after_seconds=_SOON_SECONDS if soon else wait,
        )


def _number(last: LastAttempt) -> int:
    """Which attempt of its generation it was."""
    found = _UNSCHEDULED.search(last.name)
    return int(found.group(2)) if found is not None else 1


def _reason(last: LastAttempt) -> Reason:
    """How it ended; a word that we do not know was written by a newer version."""
    try:
        return Reason(last.outcome or "")
    except ValueError:
        return Reason.SCAN_FAILED
