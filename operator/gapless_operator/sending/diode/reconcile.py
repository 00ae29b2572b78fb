"""The reconcile of a Diode: its volume, the check of its node, its conditions, the turns of Resends, its ledger.

Must not know how anything is written or watched. Pure: the same Diode, observation and time give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_operator.common.children import job_ref, running_children
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate, conditions_with, transition
from gapless_operator.common.log_grace import is_being_read
from gapless_operator.common.plan import Manifest, Plan, Ref
from gapless_operator.common.pod_trouble import lost_message, trouble_of
from gapless_operator.sending.diode.preflight import evaluate, read_preflight
from gapless_operator.sending.diode_children import preflight_job, preflight_name, state_claim, state_claim_name
from gapless_operator.sending.ledger import owner_writes
from gapless_operator.sending.link_profile import NoProfile, doubts_about, profile_of
from gapless_operator.sending.progress import message_problem
from gapless_operator.sending.queries import SEND, waits_for_turn
from gapless_operator.sending.queue import assign_turns, is_sending
from gapless_operator.sending.sender_pods import template_refusal

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode, Preflight
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import DiodeObserved

CHECK_EVERY = timedelta(hours=1)
"""How often a good link is checked while no Resend waits for it. Each check is a Job, a pod and a status: checking a
hundred Diodes every five minutes would be a write per second."""
FRESH_CHECK = timedelta(minutes=5)
"""How old a check may be when a Resend starts on an idle link; on a busy one the senders check it."""
RECHECK_AFTER = timedelta(seconds=30)
"""How soon a bad link is checked again."""
_SLOW_AFTER = timedelta(minutes=1)
"""When the pod of a preflight is reported as slow: before the deadline of its Job, after which it is recreated."""
_TROUBLED = frozenset(
    {Reason.POD_REJECTED, Reason.POD_UNSCHEDULABLE, Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED, Reason.POD_SLOW}
)
_WARNINGS = frozenset(Reason) - {Reason.LINK_READY, Reason.PREFLIGHT_PENDING, Reason.SUSPENDED}
_SUSPENDED = (
    "spec.suspend is true: every pod that sends over this link is stopped and no new one starts; progress is saved."
)


def reconcile_diode(diode: Diode, observed: DiodeObserved, now: datetime, program: Program) -> Plan:
    """Return what a Diode needs next.

    Args:
        diode: with the status that was last written.
        observed: what exists for it in the cluster.
        now: the time.
        program: the sender image.
    """
    stop = running_children(
        {job.meta.uid: job for job in (*observed.jobs, *observed.sender_jobs)}.values(),
        {pod.meta.uid: pod for pod in (*observed.pods, *observed.sender_pods)}.values(),
    )
    if diode.metadata.deleting:
        return Plan(stop=stop)
    now = now.replace(microsecond=0)
    is_suspended, refusal = diode.spec.suspend, template_refusal(diode, program)
    if is_suspended:
        check = _skip_node_check(diode, observed, "while spec.suspend is true")
    elif refusal is not None:
        check = _skip_node_check(diode, observed, "with this spec.podTemplate")
    else:
        check = _check_node(diode, observed, now, program)
    profile = profile_of(diode, observed.profile_entry, observed.profile_problem)
    if refusal is not None:
        stalled: ConditionUpdate | None = ConditionUpdate(True, *refusal)
    else:
        stalled = ConditionUpdate(True, *profile) if isinstance(profile, NoProfile) else _blocker(diode, observed)
    ready = stalled is None and check.link.status is True and not is_suspended
    if is_suspended:
        summary = ConditionUpdate(False, Reason.SUSPENDED, _SUSPENDED)
    elif stalled is not None:
        summary = ConditionUpdate(False, stalled.reason, stalled.message)
    else:
        message = f"{check.link.message}{doubts_about(diode, profile, now)}"
        summary = ConditionUpdate(check.link.status is True, check.link.reason, message)
    updates = {
        ConditionType.LINK_UP: check.link,
        ConditionType.READY: summary,
        ConditionType.STALLED: stalled or NOT_STALLED,
        ConditionType.RECONCILING: ConditionUpdate(False, Reason.SETTLED)
        if ready or stalled is not None or is_suspended
        else ConditionUpdate(True, check.link.reason, check.link.message),
    }
    conditions = conditions_with(diode.status.conditions, updates, generation=diode.metadata.generation, now=now)
    turn = assign_turns(diode, observed, ready=ready and _is_fresh(diode, check.findings, now), now=now)
    status = diode.status.model_copy(
        update={
            "observed_generation": diode.metadata.generation,
            "conditions": conditions,
            "preflight": check.findings,
            "active": turn.active,
            "queued": turn.queued,
        }
    )
    again_after = check.again_after
    if isinstance(profile, NoProfile) and not is_suspended:  # Its ConfigMap is not watched.
        again_after = RECHECK_AFTER if again_after is None else min(again_after, RECHECK_AFTER)
    name = state_claim_name(diode.metadata.name)
    claim = state_claim(diode, next((claim for claim in observed.volume_claims if claim.meta.name == name), None))
    return Plan(
        stop=stop if is_suspended or refusal is not None else (),
        apply=(*owner_writes(diode, observed.ledger), *(() if claim is None else (claim,)), *check.apply),
        delete=check.delete,
        status=status.to_status() if status != diode.status else None,
        events=transition(diode.status.conditions, conditions, of=ConditionType.READY, warnings=_WARNINGS),
        requeue_after_seconds=None if again_after is None else again_after.total_seconds(),
    )


def overlapping_window(diode: Diode, observed: DiodeObserved) -> ConditionUpdate | None:
    """Return why another Diode's window overlaps; ``None`` when none does.

    An identical window is allowed: two links, or two receiver ports, of one cluster share it.
    """
    own = diode.spec.partition_window
    others = sorted(observed.other_diodes, key=lambda other: (other.metadata.namespace, other.metadata.name))
    for other in others:
        window = other.spec.partition_window
        if other.metadata.deleting or window == own or not own.window().overlaps(window.window()):
            continue
        return ConditionUpdate(
            True,
            Reason.WINDOW_OVERLAP,
            f"The partitionWindow of Diode {diode.key} ({own.window()}) and that of Diode {other.key} "
            f"({window.window()}) overlap, so events of one cluster would be taken for events of the other; give them "
            f"disjoint windows, or the same one if they are two links of one cluster.",
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeCheck:
    """What is known about the node, and the next preflight."""

    findings: Preflight | None
    link: ConditionUpdate
    again_after: timedelta | None
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()


def _check_node(diode: Diode, observed: DiodeObserved, now: datetime, program: Program) -> _NodeCheck:
    """Read what the last preflight found, and start the next one when it is due."""
    name = preflight_name(diode)
    job = next((job for job in observed.jobs if job.meta.name == name), None)
    old = tuple(job_ref(other) for other in observed.jobs if other.meta.name != name and not other.meta.deleting)
    findings = diode.status.preflight
    if findings is not None and findings.generation != diode.metadata.generation:
        findings = None
    lost = _lost_node(observed)
    if job is None:
        # A lost node is checked at once: another one that matches the node selector may have replaced it.
        is_due = _is_due(diode, observed, findings, now) or lost is not None or _was_node_lost(diode)
        return _NodeCheck(
            findings=findings or diode.status.preflight,
            link=lost or _last_link_state(diode, findings),
            apply=(preflight_job(diode, program),) if is_due else (),
            delete=old,
            again_after=_time_until_due(diode, observed, findings, now),
        )
    update: ConditionUpdate | None = None
    is_old = is_read_now = False
    if job.ended:
        finished = job.ended_at.replace(microsecond=0)
        is_old = findings is not None and findings.checked_at is not None and findings.checked_at >= finished
        if not is_old:
            read = [check for pod in observed.pods if (check := read_preflight(pod, diode, finished)) is not None]
            findings = read[-1] if read else findings
            if read:
                update = evaluate(read[-1], diode.spec)
            else:
                is_read_now = is_being_read(observed.pods)
                update = None if is_read_now else _missing_findings(diode, job, observed.pods)
    elif (trouble := trouble_of(job, observed.pods, now, slow_after=_SLOW_AFTER)) is not None:
        update = ConditionUpdate(None, *trouble)
    stuck = next((pod for pod in observed.pods if pod.job == name and pod.is_lost and not pod.ended), None)
    if stuck is not None:
        update = ConditionUpdate(None, Reason.NODE_LOST, lost_message(stuck))
    elif lost is not None and (findings is None or findings == diode.status.preflight):
        update = lost if update is None else ConditionUpdate(None, Reason.NODE_LOST, f"{lost.message} {update.message}")
    link = update or _last_link_state(diode, findings)
    interval = _check_interval(diode, observed, is_good=link.status is True)
    remaining = job.ended_at + interval - now if job.ended else interval
    # The log is read before the next check, however late: the operator may have been down.
    is_due = (remaining <= timedelta(0) and not is_read_now) or stuck is not None or (is_old and lost is not None)
    return _NodeCheck(
        findings=findings or diode.status.preflight,
        link=link,
        delete=(*old, *((job_ref(job),) if is_due and not job.meta.deleting else ())),
        again_after=max(remaining, timedelta(seconds=1)),
    )


def _skip_node_check(diode: Diode, observed: DiodeObserved, when: str) -> _NodeCheck:
    """Do not check the node of a Diode that may start no pod; it is checked before the Diode continues."""
    old = tuple(job_ref(job) for job in observed.jobs if job.ended and not job.meta.deleting)
    return _NodeCheck(
        findings=diode.status.preflight,
        link=ConditionUpdate(None, Reason.PREFLIGHT_PENDING, f"The preflight check does not run {when}."),
        delete=old,
        again_after=None,
    )


def _lost_node(observed: DiodeObserved) -> ConditionUpdate | None:
    """Return why the state of the link is unknown: the node that was checked is not ready; ``None`` when it is."""
    node = observed.node
    if node is None or node.ready:
        return None
    since = "" if node.since is None else f" since {moment_text(node.since)}"
    message = (
        f"Node {node.name}, which is connected to the diode, has not been ready{since}; another node that matches "
        f"spec.nodeSelector replaces it once its pods are deleted (docs/runbooks/GaplessDiodeNodeLost.md)."
    )
    return ConditionUpdate(None, Reason.NODE_LOST, message)


def _was_node_lost(diode: Diode) -> bool:
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    return before is not None and before.reason == Reason.NODE_LOST


def _last_link_state(diode: Diode, findings: Preflight | None) -> ConditionUpdate:
    """Return the last known state of the link."""
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    is_current = before is not None and before.observed_generation == diode.metadata.generation
    if before is not None and is_current and before.status == "Unknown" and before.reason != Reason.PREFLIGHT_PENDING:
        return ConditionUpdate(None, before.reason, before.message)
    if findings is not None:
        return evaluate(findings, diode.spec)
    return ConditionUpdate(None, Reason.PREFLIGHT_PENDING, "The preflight check has not run yet.")


def _missing_findings(diode: Diode, job: ObservedJob, pods: Iterable[ObservedPod]) -> ConditionUpdate | None:
    """Return why a preflight ended without findings; ``None`` if the condition already says why it did not start."""
    problem = message_problem(pods, PREFLIGHT_LINE.event)
    if problem:
        return ConditionUpdate(None, Reason.PREFLIGHT_FAILED, f"{problem} The check is retried.")
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    if before is not None and before.reason in _TROUBLED:
        return None
    why = f" ({job.failure_message})" if job.failure_message else ""
    return ConditionUpdate(
        None,
        Reason.PREFLIGHT_FAILED,
        f"The preflight Job {job.meta.name} ended without a result{why}; it is retried.",
    )


def _is_due(diode: Diode, observed: DiodeObserved, findings: Preflight | None, now: datetime) -> bool:
    return _time_until_due(diode, observed, findings, now) <= timedelta(0) or findings is None


def _time_until_due(diode: Diode, observed: DiodeObserved, findings: Preflight | None, now: datetime) -> timedelta:
    if findings is None or findings.checked_at is None:
        return timedelta(seconds=1)
    interval = _check_interval(diode, observed, is_good=evaluate(findings, diode.spec).status is True)
    return findings.checked_at + interval - now


def _check_interval(diode: Diode, observed: DiodeObserved, *, is_good: bool) -> timedelta:
    """Return how often the node is checked."""
    if not is_good:
        return RECHECK_AFTER
    name = diode.metadata.name
    is_needed = any(resend.spec.diode_ref.name == name and waits_for_turn(resend, SEND) for resend in observed.resends)
    return FRESH_CHECK if is_needed and not is_sending(diode) else CHECK_EVERY


def _is_fresh(diode: Diode, findings: Preflight | None, now: datetime) -> bool:
    """Return whether the last check is recent enough for a Resend to start."""
    return is_sending(diode) or (
        findings is not None and findings.checked_at is not None and now - findings.checked_at < FRESH_CHECK
    )


def _blocker(diode: Diode, observed: DiodeObserved) -> ConditionUpdate | None:
    """Return what only a person can resolve; ``None`` when there is nothing."""
    encryption = diode.spec.encryption
    if encryption is not None and encryption.shared_with_live_stream:
        return ConditionUpdate(
            True,
            Reason.SHARED_KEY_LANE,
            f"The live stream uses the same receiver ({diode.spec.target.host}:{diode.spec.target.port}), which has "
            f"one key for all senders; an encrypted resend would make the live stream unreadable, so nothing is sent. "
            f"Use a separate receiver port for resends and remove sharedWithLiveStream.",
        )
    return overlapping_window(diode, observed)
