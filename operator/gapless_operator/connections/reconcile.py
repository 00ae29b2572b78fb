"""The reconciler of KafkaConnection: each new value of the annotation, and each spec under it, is checked once.

Must not know how a check works. Resources that use the connection do not wait for a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.kafka_connection_status import (
    MAX_REQUEST_LENGTH,
    MAX_STATUS_FINDINGS,
    DoctorStatus,
    Finding,
    Severity,
)
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.children import digest
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.observed import moment
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.common.result import Announced, Result
from gapless_operator.connections.pod import DOCTOR_ROLE, doctor_job, settings_map
from gapless_operator.engines.endings import INTERRUPTED, Ending
from gapless_operator.engines.scheduling import attempt_name
from gapless_operator.lifecycle.context import Context
from gapless_operator.lifecycle.reconcile import Kind, reconcile
from gapless_operator.lifecycle.tracks import Track, end_by_exit_code, track_of
from gapless_operator.lifecycle.work import SOON, Deadlines, Work, would_be_refused

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorReport
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.observed import WorkObserved

DOCTOR_ANNOTATION = f"{GROUP}/doctor"
"""Each new value starts a check, and so does a changed spec while there is a value."""
_START_SECONDS, _RUN_SECONDS = 300, 600
_SEVERITIES: dict[str, Severity] = {"error": "Error", "warning": "Warning", "note": "Note"}
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
    return reconcile(_CONNECTION, connection, observed, lambda: _context_of(connection, observed, now, program))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context(Context[KafkaConnection, None]):
    track: Track
    """The attempts at checking it."""


def _context_of(connection: KafkaConnection, observed: WorkObserved, now: datetime, program: Program) -> _Context:
    track = track_of(observed, connection.status.last_attempt, now, roles=[DOCTOR_ROLE])
    return _Context(resource=connection, observed=observed, now=now, program=program, access=None, track=track)


def _rest_or_start(context: _Context) -> Result:
    connection = context.resource
    request = _request(connection)
    if request and not _is_checked(connection, request):
        refusal = _refusal_now(context)
        return _start(context, request) if refusal is None else Result(conditions=_refused(connection, refusal))
    if _is_of_another_spec(connection):
        return Result(conditions={**_SETTLED, ConditionType.HEALTHY: _NOT_CHECKED})
    # An earlier error in reading or writing the resource is resolved.
    is_stalled = is_true(connection.status.conditions, ConditionType.STALLED)
    return Result(conditions=_SETTLED if is_stalled else {})


def _request(connection: KafkaConnection) -> str:
    """Return the value of the annotation; empty if it is absent."""
    return connection.metadata.annotations.get(DOCTOR_ANNOTATION, "").strip()[:MAX_REQUEST_LENGTH]


def _refusal_now(context: _Context) -> Refusal | None:
    """Return why no check may run, or no longer; ``None`` if it may."""
    name, namespace = context.resource.spec.pod_template, context.resource.metadata.namespace
    return refusal_of(lambda: context.program.pod_templates.check(name, namespace))


def _refused(connection: KafkaConnection, refusal: Refusal) -> Updates:
    """Return the conditions while no check may run; what was found in another spec is no longer claimed."""
    conditions: Updates = {**_SETTLED, ConditionType.STALLED: ConditionUpdate(True, *refusal)}
    if not _is_known(connection):
        conditions[ConditionType.HEALTHY] = ConditionUpdate(None, *refusal)
    return conditions


def _is_checked(connection: KafkaConnection, request: str) -> bool:
    """Return whether the last check was made for this request and of the spec of today, and was not interrupted."""
    doctor, last = connection.status.doctor, connection.status.last_attempt
    if doctor is None or doctor.request != request or last is None or last.outcome in INTERRUPTED:
        return False
    return not _is_older(connection, last)


def _is_of_another_spec(connection: KafkaConnection) -> bool:
    """Return whether the status describes another spec than that of today, or none."""
    return connection.status.observed_generation != connection.metadata.generation


def _is_known(connection: KafkaConnection) -> bool:
    """Return whether the status says what a check has found in the spec of today."""
    known = condition(connection.status.conditions, ConditionType.HEALTHY)
    return known is not None and known.reason != Reason.CHECKING and not _is_of_another_spec(connection)


def _is_outdated(context: _Context, attempt: Attempt) -> Ending | None:
    """Stop an attempt for another request, or of another spec, than those of today; what it found does not count."""
    connection = context.resource
    if attempt.work == digest(_request(connection)) and not _is_older(connection, attempt):
        return None
    return Ending(Reason.STOPPED, f"{attempt.name} was stopped because another check is due.")


def _is_older(connection: KafkaConnection, attempt: Attempt | LastAttempt) -> bool:
    """Return whether an attempt is of another spec than that of today."""
    return attempt.generation != connection.metadata.generation


def _start(context: _Context, request: str) -> Result:
    connection = context.resource
    number, generation = connection.status.runs + 1, connection.metadata.generation
    name = attempt_name(connection, f"doctor-{number}", prefix="kafka")
    program = context.program.with_template(connection.spec.pod_template)
    job = doctor_job(connection, name, request, program, deadline_seconds=_START_SECONDS + _RUN_SECONDS)
    last = LastAttempt(name=name, engine="Job", generation=generation, started=context.now)
    return Result(
        conditions=_checking(connection, name),
        update={**_started(connection, name, request), "last_attempt": last},
        apply=(settings_map(connection, name), job),
        again_after=SOON,
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


def _watch(context: _Context, attempt: Attempt) -> Result:
    connection = context.resource
    # The attempt may not be in the status yet because of a crash.
    update = {"last_attempt": context.track.last, **_started(connection, attempt.name, _request(connection))}
    return Result(conditions=_checking(connection, attempt.name), update=update)


def _end(context: _Context, attempt: Attempt) -> Ending:
    succeeded = Ending(Reason.NOTHING_FOUND, "The check has ended.")
    return _is_outdated(context, attempt) or end_by_exit_code(
        attempt, succeeded=succeeded, incomplete=Reason.PROBLEMS_FOUND, failed=Reason.DOCTOR_FAILED
    )


def _started(connection: KafkaConnection, attempt: str, request: str) -> dict[str, Any]:
    """Return the status fields of a started check; the findings of the previous check stay until it ends."""
    doctor = connection.status.doctor or DoctorStatus(request=request)
    return {"runs": int(attempt.rpartition("-")[2]), "doctor": doctor.model_copy(update={"request": request})}


def _record(context: _Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    connection = context.resource
    has_answered = attempt is not None and attempt.ended and ending.reason is not Reason.STOPPED
    driver = attempt.driver if attempt is not None and has_answered else None
    report = driver.output.doctor if driver is not None else None
    doctor, request = connection.status.doctor, _request(connection)
    if attempt is None or attempt.work != digest(request):
        request = doctor.request if doctor is not None else ""
    is_older = _is_older(connection, last)
    update: dict[str, Any] = {**_started(connection, last.name, request), "last_attempt": last}
    is_due = request != _request(connection) or is_older or ending.reason in INTERRUPTED
    conditions = _settled(connection, is_due=is_due)
    if report is not None:
        healthy = _health(report)
        update["doctor"] = _findings(report, request)
        update["last_attempt"] = last.model_copy(update={"outcome": healthy.reason, "message": healthy.message})
        conditions[ConditionType.HEALTHY] = healthy
    elif ending.reason is not Reason.STOPPED and not is_older:
        has_no_report = ending.reason in {Reason.NOTHING_FOUND, Reason.PROBLEMS_FOUND}
        reason = Reason.DOCTOR_FAILED if has_no_report else ending.reason
        conditions[ConditionType.HEALTHY] = ConditionUpdate(None, reason, ending.message)
    return Result(conditions=conditions, update=update)


def _settled(connection: KafkaConnection, *, is_due: bool) -> Updates:
    """Return the conditions after a check without a result; nothing is claimed of a spec that was not checked."""
    conditions = dict(_SETTLED)
    if is_due and _request(connection):
        conditions[ConditionType.RECONCILING] = _DUE
    if not _is_known(connection):
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


_WORK: Work[_Context] = Work(
    track=lambda context: context.track,
    must_stop=(_is_outdated, would_be_refused(_refusal_now)),
    deadlines=lambda _: Deadlines(_START_SECONDS, _RUN_SECONDS),
    end=_end,
    record=_record,
    watch=_watch,
    look_every=timedelta(seconds=_RUN_SECONDS),
    rest_or_start=_rest_or_start,
)
_CONNECTION: Kind[_Context] = Kind(
    works=(_WORK,),
    announced=Announced(ConditionType.HEALTHY, frozenset({Reason.PROBLEMS_FOUND, Reason.DOCTOR_FAILED})),
    # On the receiving side the operator may not delete pods; they end with the Job, or soon by themselves.
    deletes_pods=False,
)
