"""Owns the reconciler of KafkaConnection: each new value of the annotation, and each spec under it, is checked once.

Must not know how a check works. Resources that use the connection do not wait for a check.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.kafka_connection_status import MAX_REQUEST_LENGTH, MAX_STATUS_FINDINGS, DoctorStatus, Finding
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.children import digest, running_children
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate, conditions_with, transition
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
"""Each new value starts a check, and so does a changed spec while there is a value."""
_START_SECONDS, _RUN_SECONDS = 300, 600
_DELAY_SECONDS = 0.9
_SEVERITIES: dict[str, Severity] = {"error": "Error", "warning": "Warning", "note": "Note"}
_WARNINGS = frozenset({Reason.PROBLEMS_FOUND, Reason.DOCTOR_FAILED})
_MAX_TEXT_LENGTH = 1024
Updates = dict[ConditionType, ConditionUpdate]
_SETTLED: Updates = {
    ConditionType.RECONCILING: ConditionUpdate(False, Reason.SETTLED),
    ConditionType.STALLED: NOT_STALLED,
}
_DUE = ConditionUpdate(True, Reason.CHECKING, "Another check is due.")
_NOT_CHECKED = ConditionUpdate(
    None, Reason.NOT_CHECKED, f"This spec was not checked; set the annotation {DOCTOR_ANNOTATION} to check it."
)


def reconcile_connection(
    connection: KafkaConnection, observed: WorkObserved, now: datetime, *, program: Program
) -> Plan:
    """Return the plan of a KafkaConnection.

    Args:
        connection: the connection, with its latest status.
        observed: its children.
        now: the current time.
        program: the settings of the pods.
    """
    if connection.metadata.deleting:
        # The pod ends with the Job, or soon by itself; on the receiving side the operator may not delete pods.
        return Plan(stop=running_children(observed.jobs, ()))
    track = track_of(observed, connection.status.last_attempt, now, roles=[DOCTOR_ROLE])
    if track.running is not None:
        return _watch(connection, track, now)
    request = _request(connection)
    if request and not _is_checked(connection, request):
        return _start(connection, request, now, program)
    delete = leftovers((track,), observed)
    if _is_of_another_spec(connection):
        return _plan(connection, {**_SETTLED, ConditionType.HEALTHY: _NOT_CHECKED}, {}, now, delete=delete)
    if is_true(connection.status.conditions, ConditionType.STALLED):
        # An earlier error in reading or writing the resource is resolved.
        return _plan(connection, _SETTLED, {}, now, delete=delete)
    return Plan(delete=delete)


def _request(connection: KafkaConnection) -> str:
    """Return the value of the annotation; empty if it is absent."""
    return connection.metadata.annotations.get(DOCTOR_ANNOTATION, "").strip()[:MAX_REQUEST_LENGTH]


def _is_checked(connection: KafkaConnection, request: str) -> bool:
    """Return whether the last check was made for this request, and of the spec of today."""
    doctor, last = connection.status.doctor, connection.status.last_attempt
    return doctor is not None and doctor.request == request and last is not None and not _is_older(connection, last)


def _is_of_another_spec(connection: KafkaConnection) -> bool:
    """Return whether the status describes another spec than that of today, or none."""
    return connection.status.observed_generation != connection.metadata.generation


def _is_outdated(connection: KafkaConnection, attempt: Attempt) -> bool:
    """Return whether an attempt is for another request, or of another spec, than those of today."""
    return attempt.work != digest(_request(connection)) or _is_older(connection, attempt)


def _is_older(connection: KafkaConnection, attempt: Attempt | LastAttempt) -> bool:
    """Return whether an attempt is of another spec than that of today."""
    return attempt.generation != connection.metadata.generation


def _start(connection: KafkaConnection, request: str, now: datetime, program: Program) -> Plan:
    number = connection.status.runs + 1
    name = attempt_name(connection, f"doctor-{number}", prefix="kafka")
    job = doctor_job(connection, name, request, program, deadline_seconds=_START_SECONDS + _RUN_SECONDS)
    update = {
        **_started(connection, name, request),
        "last_attempt": LastAttempt(name=name, engine="Job", generation=connection.metadata.generation, started=now),
    }
    return _plan(
        connection,
        _checking(connection, name),
        update,
        now,
        apply=(settings_map(connection, name), job),
        requeue_after_seconds=_DELAY_SECONDS,
    )


def _checking(connection: KafkaConnection, attempt: str) -> Updates:
    """Return the conditions while a check runs; what was found in another spec is no longer claimed."""
    conditions: Updates = {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.CHECKING, f"The Job {attempt} checks the cluster."),
        ConditionType.STALLED: NOT_STALLED,
    }
    is_known = condition(connection.status.conditions, ConditionType.HEALTHY) is not None
    if not is_known or _is_of_another_spec(connection):
        conditions[ConditionType.HEALTHY] = ConditionUpdate(
            None, Reason.CHECKING, "No check of this spec has finished yet."
        )
    return conditions


def _watch(connection: KafkaConnection, track: Track, now: datetime) -> Plan:
    """Wait until a check has ended, and record its result."""
    attempt = track.current
    ending = None
    if attempt is not None and _is_outdated(connection, attempt):
        # Also what it found before it was stopped is about another spec, or the answer to another request.
        ending = Ending(Reason.STOPPED, f"{attempt.name} was stopped because another check is due.")
    elif attempt is not None and not attempt.ended and not attempt.meta.deleting:
        ending = must_end(attempt, start_seconds=_START_SECONDS, run_seconds=_RUN_SECONDS, now=now)
    if ending is not None and attempt is not None:
        return _record(connection, track, ending, now, stop=attempt)
    succeeded = Ending(Reason.NOTHING_FOUND, "The check has ended.")
    ending = own_end(track, succeeded=succeeded, incomplete=Reason.PROBLEMS_FOUND, failed=Reason.DOCTOR_FAILED, now=now)
    if ending is not None:
        return _record(connection, track, ending, now)
    if attempt is None:
        return Plan()
    after = check_again_after(attempt, start_seconds=_START_SECONDS, run_seconds=_RUN_SECONDS, now=now)
    seconds = _RUN_SECONDS if after is None else max(after, timedelta()).total_seconds()
    # The attempt may not be in the status yet because of a crash.
    update = {"last_attempt": track.last, **_started(connection, attempt.name, _request(connection))}
    conditions = _checking(connection, attempt.name)
    return _plan(connection, conditions, update, now, requeue_after_seconds=seconds + _DELAY_SECONDS)


def _started(connection: KafkaConnection, attempt: str, request: str) -> dict[str, Any]:
    """Return the status fields of a started check; the findings of the previous check stay until it ends."""
    doctor = connection.status.doctor or DoctorStatus(request=request)
    return {"runs": int(attempt.rpartition("-")[2]), "doctor": doctor.model_copy(update={"request": request})}


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
        **_started(connection, running.name, request),
        "last_attempt": ended(running, ending, attempt, now),
    }
    conditions = _settled(connection, is_due=request != _request(connection) or _is_older(connection, running))
    if report is not None:
        healthy = _health(report)
        update["doctor"] = _findings(report, request)
        update["last_attempt"] = ended(running, Ending(Reason(healthy.reason), healthy.message), attempt, now)
        conditions[ConditionType.HEALTHY] = healthy
    elif ending.reason is not Reason.STOPPED and not _is_older(connection, running):
        has_no_report = ending.reason in {Reason.NOTHING_FOUND, Reason.PROBLEMS_FOUND}
        reason = Reason.DOCTOR_FAILED if has_no_report else ending.reason
        conditions[ConditionType.HEALTHY] = ConditionUpdate(None, reason, ending.message)
    refs = () if stop is None else (ref_of(stop),)
    return _plan(connection, conditions, update, now, stop=refs, requeue_after_seconds=_DELAY_SECONDS)


def _settled(connection: KafkaConnection, *, is_due: bool) -> Updates:
    """Return the conditions after a check without a result; nothing is claimed of a spec that was not checked."""
    conditions = dict(_SETTLED)
    if is_due and _request(connection):
        conditions[ConditionType.RECONCILING] = _DUE
    known = condition(connection.status.conditions, ConditionType.HEALTHY)
    if known is None or known.reason == Reason.CHECKING or _is_of_another_spec(connection):
        conditions[ConditionType.HEALTHY] = _NOT_CHECKED
    return conditions


def _health(report: DoctorReport) -> ConditionUpdate:
    counts = f"{report.errors} errors, {report.warnings} warnings and {report.notes} notes"
    if not report.errors:
        return ConditionUpdate(True, Reason.NOTHING_FOUND, f"The check found {counts}.")
    worst = report.findings[0].message if report.findings else ""
    return ConditionUpdate(False, Reason.PROBLEMS_FOUND, f"The check found {counts}. {worst}".strip())


def _findings(report: DoctorReport, request: str) -> DoctorStatus:
    listed = report.findings[:MAX_STATUS_FINDINGS]
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
                id=finding.id[:64],
                severity=_SEVERITIES[finding.severity],
                where=finding.where[:_MAX_TEXT_LENGTH],
                message=finding.message,
                action=finding.action[:_MAX_TEXT_LENGTH],
                danger=finding.danger[:_MAX_TEXT_LENGTH],
            )
            for finding in listed
        ),
        findings_omitted=report.findings_omitted + len(report.findings) - len(listed),
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
