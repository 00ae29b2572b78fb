"""Owns what a KafkaConnection needs next: a check for each new value of its annotation, else nothing.

Must not know how a check works. Nobody waits for one: what names the connection goes on meanwhile.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.kafka_connection_status import MAX_REQUEST_LENGTH, MAX_STATUS_FINDINGS, DoctorStatus, Finding
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.children import all_that_runs, digest
from gapless_operator.common.conditions import ConditionUpdate, conditions_with, transition
from gapless_operator.common.observed import moment
from gapless_operator.common.plan import Plan
from gapless_operator.connections.pod import DOCTOR_ROLE, doctor_job, settings_map
from gapless_operator.engines.choice import ref_of
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.scheduling import attempt_name
from gapless_operator.engines.tracks import check_again_after, ended, leftovers, must_end, own_end, track_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.kafka_connection import KafkaConnection
    from gapless_api.v1alpha1.kafka_connection_status import Severity
    from gapless_api.wire.doctor_report import DoctorReport
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.engines.tracks import Track

DOCTOR_ANNOTATION = f"{GROUP}/doctor"
"""Each new value starts a check."""
_START_SECONDS, _RUN_SECONDS = 300, 600
_SOON = 0.9
_SEVERITIES: dict[str, Severity] = {"error": "Error", "warning": "Warning", "note": "Note"}
_WARNINGS = frozenset({Reason.PROBLEMS_FOUND, Reason.DOCTOR_FAILED})
_LONGEST_TEXT = 1024
Updates = dict[ConditionType, ConditionUpdate]
_SETTLED: Updates = {
    ConditionType.RECONCILING: ConditionUpdate(False, Reason.SETTLED),
    ConditionType.STALLED: ConditionUpdate(False, Reason.NOT_STALLED),
}


def reconcile_connection(
    connection: KafkaConnection, observed: WorkObserved, now: datetime, *, program: Program
) -> Plan:
    """Say what a KafkaConnection needs next.

    Args:
        connection: with the status that was written last.
        observed: what belongs to it.
        now: the time.
        program: what the pods of checks are made of.
    """
    if connection.metadata.deleting:
        # Its pod ends with the Job, or soon by itself; where only GapScans are served, pods may not be deleted.
        return Plan(stop=all_that_runs(observed.jobs, ()))
    track = track_of(observed, connection.status.last_attempt, now, roles=[DOCTOR_ROLE])
    if track.running is not None:
        return _watch(connection, track, now)
    request = _request(connection)
    doctor = connection.status.doctor
    if request and (doctor is None or doctor.request != request):
        return _begin(connection, request, now, program)
    delete = leftovers((track,), observed)
    if is_true(connection.status.conditions, ConditionType.STALLED):
        # What could not be read or written is of no account any more.
        return _plan(connection, _SETTLED, {}, now, delete=delete)
    return Plan(delete=delete)


def _request(connection: KafkaConnection) -> str:
    """What the annotation says; empty for nothing."""
    return connection.metadata.annotations.get(DOCTOR_ANNOTATION, "").strip()[:MAX_REQUEST_LENGTH]


def _begin(connection: KafkaConnection, request: str, now: datetime, program: Program) -> Plan:
    number, status = connection.status.runs + 1, connection.status
    name = attempt_name(connection, f"doctor-{number}", prefix="kafka")
    job = doctor_job(connection, name, request, program, deadline_seconds=_START_SECONDS + _RUN_SECONDS)
    update = {
        **_began(connection, name, request),
        "last_attempt": LastAttempt(name=name, engine="Job", generation=connection.metadata.generation, started=now),
    }
    conditions: Updates = {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.CHECKING, f"The Job {name} checks the cluster."),
        ConditionType.STALLED: ConditionUpdate(False, Reason.NOT_STALLED),
    }
    if condition(status.conditions, ConditionType.HEALTHY) is None:
        conditions[ConditionType.HEALTHY] = ConditionUpdate(None, Reason.CHECKING, "No check has ended yet.")
    return _plan(
        connection, conditions, update, now, apply=(settings_map(connection, name), job), requeue_after_seconds=_SOON
    )


def _watch(connection: KafkaConnection, track: Track, now: datetime) -> Plan:
    """Wait for the end of a check, and record it."""
    attempt = track.current
    ending = None
    if attempt is not None and not attempt.ended and not attempt.meta.deleting:
        ending = must_end(attempt, start_seconds=_START_SECONDS, run_seconds=_RUN_SECONDS, now=now)
        if ending is None and attempt.work != digest(_request(connection)):
            ending = Ending(Reason.STOPPED, f"{attempt.name} was stopped because another check was requested.")
    if ending is not None and attempt is not None:
        return _record(connection, track, ending, now, stop=attempt)
    over = Ending(Reason.NOTHING_FOUND, "The check has ended.")
    ending = own_end(track, succeeded=over, incomplete=Reason.PROBLEMS_FOUND, failed=Reason.DOCTOR_FAILED, now=now)
    if ending is not None:
        return _record(connection, track, ending, now)
    if attempt is None:
        return Plan()
    after = check_again_after(attempt, start_seconds=_START_SECONDS, run_seconds=_RUN_SECONDS, now=now)
    seconds = _RUN_SECONDS if after is None else max(after, timedelta()).total_seconds()
    # One that a crash kept from the status is taken over.
    update = {"last_attempt": track.last, **_began(connection, attempt.name, _request(connection))}
    return _plan(connection, {}, update, now, requeue_after_seconds=seconds + _SOON)


def _began(connection: KafkaConnection, attempt: str, request: str) -> dict[str, Any]:
    """What the status says of a check that has begun; what the one before found stays until it ends."""
    found = connection.status.doctor or DoctorStatus(request=request)
    return {"runs": int(attempt.rpartition("-")[2]), "doctor": found.model_copy(update={"request": request})}


def _record(
    connection: KafkaConnection, track: Track, ending: Ending, now: datetime, *, stop: Attempt | None = None
) -> Plan:
    running, attempt = track.running, track.current
    if running is None:
        raise ValueError("no check runs")
    driver = attempt.driver if attempt is not None else None
    report = driver.output.doctor if driver is not None and stop is None else None
    doctor = connection.status.doctor
    request = _request(connection)
    if attempt is None or attempt.work != digest(request):
        request = doctor.request if doctor is not None else ""
    update: dict[str, Any] = {
        **_began(connection, running.name, request),
        "last_attempt": ended(running, ending, attempt, now),
    }
    if report is not None:
        update["doctor"] = _findings(report, request)
        healthy = _verdict(report)
        update["last_attempt"] = ended(running, Ending(Reason(healthy.reason), healthy.message), attempt, now)
    elif ending.reason is Reason.STOPPED:
        healthy = None
    else:
        is_silent = ending.reason in {Reason.NOTHING_FOUND, Reason.PROBLEMS_FOUND}
        reason = Reason.DOCTOR_FAILED if is_silent else ending.reason
        healthy = ConditionUpdate(None, reason, ending.message)
    conditions = _SETTLED if healthy is None else {**_SETTLED, ConditionType.HEALTHY: healthy}
    refs = () if stop is None else (ref_of(stop),)
    return _plan(connection, conditions, update, now, stop=refs, requeue_after_seconds=_SOON)


def _verdict(report: DoctorReport) -> ConditionUpdate:
    counts = f"{report.errors} errors, {report.warnings} warnings and {report.notes} notes"
    if not report.errors:
        return ConditionUpdate(True, Reason.NOTHING_FOUND, f"The check found {counts}.")
    worst = report.findings[0].message if report.findings else ""
    return ConditionUpdate(False, Reason.PROBLEMS_FOUND, f"The check found {counts}. {worst}".strip())


def _findings(report: DoctorReport, request: str) -> DoctorStatus:
    shown = report.findings[:MAX_STATUS_FINDINGS]
    counts = {"error": report.errors, "warning": report.warnings, "note": report.notes}
    return DoctorStatus(
        request=request,
        checked_at=moment(report.time),
        worst=next((_SEVERITIES[severity] for severity, count in counts.items() if count), None),
        errors=report.errors,
        warnings=report.warnings,
        notes=report.notes,
        findings=tuple(
            Finding(
                id=one.id[:64],
                severity=_SEVERITIES[one.severity],
                where=one.where[:_LONGEST_TEXT],
                message=one.message,
                action=one.action[:_LONGEST_TEXT],
                danger=one.danger[:_LONGEST_TEXT],
            )
            for one in shown
        ),
        findings_omitted=report.findings_omitted + len(report.findings) - len(shown),
    )


def _plan(connection: KafkaConnection, updates: Updates, update: dict[str, Any], now: datetime, **more: Any) -> Plan:
    status, generation = connection.status, connection.metadata.generation
    conditions = conditions_with(status.conditions, updates, generation=generation, now=now)
    after = status.model_copy(update={**update, "observed_generation": generation, "conditions": conditions})
    return Plan(
        status=after.to_status() if after != status else None,
        events=transition(status.conditions, conditions, of=ConditionType.HEALTHY, warnings=_WARNINGS),
        **more,
    )
