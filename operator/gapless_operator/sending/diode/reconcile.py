"""Owns what a Diode needs next: its volume, the check of its node, its conditions, whose turn it is, its ledger.

Must not know how anything is written or watched. Pure: the same Diode, observation and time give the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_operator.common.children import job_ref, running_children
from gapless_operator.common.conditions import ConditionUpdate, conditions_with, transition
from gapless_operator.common.log_grace import is_being_read
from gapless_operator.common.plan import Manifest, Plan, Ref
from gapless_operator.common.pod_trouble import lost_message, trouble_of
from gapless_operator.sending.diode.preflight import evaluate, found_by
from gapless_operator.sending.diode_children import preflight_job, preflight_name, state_claim, state_claim_name
from gapless_operator.sending.ledger import has_moved, kept_with
from gapless_operator.sending.progress import unreadable
from gapless_operator.sending.queries import SEND, asks_for_turn
from gapless_operator.sending.queue import is_sending, turns

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.diode import Diode, Preflight
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import DiodeObserved

CHECK_EVERY = timedelta(hours=1)
"""How often a good link is checked for which no Resend waits. Each check is a Job, a pod and a status; a hundred Diodes
that are checked every five minutes would be a write a second for nothing."""
FRESH_CHECK = timedelta(minutes=5)
"""How old a look may be when a Resend begins on a link over which nobody sends; while somebody does, senders look."""
RECHECK_AFTER = timedelta(seconds=30)
"""How soon a bad one is."""
_SLOW_AFTER = timedelta(minutes=1)
"""When a preflight's pod is slow; it must be reported before the Job's deadline ends it and the pod is recreated."""
_TROUBLED = frozenset(
    {Reason.POD_REJECTED, Reason.POD_UNSCHEDULABLE, Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED, Reason.POD_SLOW}
)
_WARNINGS = frozenset(Reason) - {Reason.LINK_READY, Reason.PREFLIGHT_PENDING, Reason.SUSPENDED}
_SUSPENDED = (
    "spec.suspend is true: every pod that sends over this link is stopped and no new one starts; progress is saved."
)


def reconcile_diode(diode: Diode, observed: DiodeObserved, now: datetime, program: Program) -> Plan:
    """Say what a Diode needs next.

    Args:
        diode: with the status that was written last.
        observed: what there is around it.
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
    is_suspended = diode.spec.suspend
    look = _rest(diode, observed) if is_suspended else _check_node(diode, observed, now, program)
    stalled = _blocker(diode, observed)
    ready = stalled is None and look.link.status is True and not is_suspended
    if is_suspended:
        summary = ConditionUpdate(False, Reason.SUSPENDED, _SUSPENDED)
    elif stalled is not None:
        summary = ConditionUpdate(False, stalled.reason, stalled.message)
    else:
        summary = ConditionUpdate(look.link.status is True, look.link.reason, look.link.message)
    updates = {
        ConditionType.LINK_UP: look.link,
        ConditionType.READY: summary,
        ConditionType.STALLED: stalled or ConditionUpdate(False, Reason.NOT_STALLED),
        ConditionType.RECONCILING: ConditionUpdate(False, Reason.SETTLED)
        if ready or stalled is not None or is_suspended
        else ConditionUpdate(True, look.link.reason, look.link.message),
    }
    conditions = conditions_with(diode.status.conditions, updates, generation=diode.metadata.generation, now=now)
    turn = turns(diode, observed, ready=ready and _is_fresh(diode, look.found, now), now=now)
    status = diode.status.model_copy(
        update={
            "observed_generation": diode.metadata.generation,
            "conditions": conditions,
            "preflight": look.found,
            "active": turn.active,
            "queued": turn.queued,
            "ledger": () if has_moved(diode, observed.ledger) else diode.status.ledger,
        }
    )
    name = state_claim_name(diode.metadata.name)
    claim = state_claim(diode, next((there for there in observed.volume_claims if there.meta.name == name), None))
    ledger = kept_with(diode, observed.ledger)
    return Plan(
        stop=stop if is_suspended else (),
        create=ledger.create,
        apply=(*ledger.apply, *(() if claim is None else (claim,)), *look.apply),
        delete=look.delete,
        status=status.to_status() if status != diode.status else None,
        events=transition(diode.status.conditions, conditions, of=ConditionType.READY, warnings=_WARNINGS),
        requeue_after_seconds=None if look.again_after is None else look.again_after.total_seconds(),
    )


def overlapping_window(diode: Diode, observed: DiodeObserved) -> ConditionUpdate | None:
    """Find a Diode with an overlapping window, or ``None``.

    The same window is no overlap: two links, or two receiver ports, of one cluster have it.
    """
    mine = diode.spec.partition_window
    others = sorted(observed.other_diodes, key=lambda other: (other.metadata.namespace, other.metadata.name))
    for other in others:
        theirs = other.spec.partition_window
        if other.metadata.deleting or theirs == mine or not mine.window().overlaps(theirs.window()):
            continue
        return ConditionUpdate(
            True,
            Reason.WINDOW_OVERLAP,
            f"The partitionWindow of Diode {diode.key} ({mine.window()}) and that of Diode {other.key} "
            f"({theirs.window()}) overlap, so that events of one cluster would pass for events of the other; give them "
            f"disjoint windows, or the same one if they are two links of one cluster.",
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeCheck:
    """What is known about the node, and what is to be done to know more."""

    found: Preflight | None
    link: ConditionUpdate
    again_after: timedelta | None
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()


def _check_node(diode: Diode, observed: DiodeObserved, now: datetime, program: Program) -> _NodeCheck:
    """Take in what the last preflight found, and have the next one made when it is due."""
    name = preflight_name(diode)
    job = next((job for job in observed.jobs if job.meta.name == name), None)
    old = tuple(job_ref(other) for other in observed.jobs if other.meta.name != name and not other.meta.deleting)
    found = diode.status.preflight
    if found is not None and found.generation != diode.metadata.generation:
        found = None
    lost = _lost_node(observed)
    if job is None:
        # The node that is lost, or was, is not waited for: another one with the labels may take over.
        is_due = _is_due(diode, observed, found, now) or lost is not None or _was_lost(diode)
        return _NodeCheck(
            found=found or diode.status.preflight,
            link=lost or _known_link(diode, found),
            apply=(preflight_job(diode, program),) if is_due else (),
            delete=old,
            again_after=_time_until_due(diode, observed, found, now),
        )
    news: ConditionUpdate | None = None
    is_old = is_read_now = False
    if job.ended:
        finished = job.ended_at.replace(microsecond=0)
        is_old = found is not None and found.checked_at is not None and found.checked_at >= finished
        if not is_old:
            seen = [look for pod in observed.pods if (look := found_by(pod, diode, finished)) is not None]
            found = seen[-1] if seen else found
            if seen:
                news = evaluate(seen[-1], diode.spec)
            else:
                is_read_now = is_being_read(observed.pods)
                news = None if is_read_now else _missing_findings(diode, job, observed.pods)
    elif (trouble := trouble_of(job, observed.pods, now, slow_after=_SLOW_AFTER)) is not None:
        news = ConditionUpdate(None, *trouble)
    stuck = next((pod for pod in observed.pods if pod.job == name and pod.is_lost and not pod.ended), None)
    if stuck is not None:
        news = ConditionUpdate(None, Reason.NODE_LOST, lost_message(stuck))
    elif lost is not None and (found is None or found == diode.status.preflight):
        news = lost if news is None else ConditionUpdate(None, Reason.NODE_LOST, f"{lost.message} {news.message}")
    link = news or _known_link(diode, found)
    every = _every(diode, observed, is_good=link.status is True)
    left = job.ended_at + every - now if job.ended else every
    # What a look found is read before the next one, however late: an operator may have been away.
    is_due = (left <= timedelta(0) and not is_read_now) or stuck is not None or (is_old and lost is not None)
    return _NodeCheck(
        found=found or diode.status.preflight,
        link=link,
        delete=(*old, *((job_ref(job),) if is_due and not job.meta.deleting else ())),
        again_after=max(left, timedelta(seconds=1)),
    )


def _rest(diode: Diode, observed: DiodeObserved) -> _NodeCheck:
    """The node of a suspended Diode is not checked; it is checked before the Diode continues."""
    old = tuple(job_ref(job) for job in observed.jobs if job.ended and not job.meta.deleting)
    return _NodeCheck(
        found=diode.status.preflight,
        link=ConditionUpdate(
            None, Reason.PREFLIGHT_PENDING, "The preflight check does not run while spec.suspend is true."
        ),
        delete=old,
        again_after=None,
    )


def _lost_node(observed: DiodeObserved) -> ConditionUpdate | None:
    """Why nothing is known of the link any more: the node that was checked is not ready."""
    node = observed.node
    if node is None or node.ready:
        return None
    since = "" if node.since is None else f" since {moment_text(node.since)}"
    message = (
        f"Node {node.name}, which leads to the diode, has not been ready{since}; another node with the labels of "
        f"spec.nodeSelector takes over when its pods are gone for good (docs/runbooks/GaplessDiodeNodeLost.md)."
    )
    return ConditionUpdate(None, Reason.NODE_LOST, message)


def _was_lost(diode: Diode) -> bool:
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    return before is not None and before.reason == Reason.NODE_LOST


def _known_link(diode: Diode, found: Preflight | None) -> ConditionUpdate:
    """The state of the link while nothing is new."""
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    is_current = before is not None and before.observed_generation == diode.metadata.generation
    if before is not None and is_current and before.status == "Unknown" and before.reason != Reason.PREFLIGHT_PENDING:
        return ConditionUpdate(None, before.reason, before.message)
    if found is not None:
        return evaluate(found, diode.spec)
    return ConditionUpdate(None, Reason.PREFLIGHT_PENDING, "The preflight check has not run yet.")


def _missing_findings(diode: Diode, job: ObservedJob, pods: Iterable[ObservedPod]) -> ConditionUpdate | None:
    """A preflight ended without findings; ``None`` where the condition already says why it did not start."""
    problem = unreadable(pods, PREFLIGHT_LINE.event)
    if problem:
        return ConditionUpdate(None, Reason.PREFLIGHT_FAILED, f"{problem} It is retried.")
    before = condition(diode.status.conditions, ConditionType.LINK_UP)
    if before is not None and before.reason in _TROUBLED:
        return None
    why = f" ({job.failure_message})" if job.failure_message else ""
    return ConditionUpdate(
        None,
        Reason.PREFLIGHT_FAILED,
        f"The preflight Job {job.meta.name} ended without a result{why}; it is retried.",
    )


def _is_due(diode: Diode, observed: DiodeObserved, found: Preflight | None, now: datetime) -> bool:
    return _time_until_due(diode, observed, found, now) <= timedelta(0) or found is None


def _time_until_due(diode: Diode, observed: DiodeObserved, found: Preflight | None, now: datetime) -> timedelta:
    if found is None or found.checked_at is None:
        return timedelta(seconds=1)
    every = _every(diode, observed, is_good=evaluate(found, diode.spec).status is True)
    return found.checked_at + every - now


def _every(diode: Diode, observed: DiodeObserved, *, is_good: bool) -> timedelta:
    """How often the node is checked."""
    if not is_good:
        return RECHECK_AFTER
    name = diode.metadata.name
    waits = any(resend.spec.diode_ref.name == name and asks_for_turn(resend, SEND) for resend in observed.resends)
    return FRESH_CHECK if waits and not is_sending(diode) else CHECK_EVERY


def _is_fresh(diode: Diode, found: Preflight | None, now: datetime) -> bool:
    """Whether a Resend may begin on what is known of the link."""
    return is_sending(diode) or (
        found is not None and found.checked_at is not None and now - found.checked_at < FRESH_CHECK
    )


def _blocker(diode: Diode, observed: DiodeObserved) -> ConditionUpdate | None:
    """What only a person can mend."""
    encryption = diode.spec.encryption
    if encryption is not None and encryption.shared_with_live_stream:
        return ConditionUpdate(
            True,
            Reason.SHARED_KEY_LANE,
            f"The live stream uses the same receiver ({diode.spec.target.host}:{diode.spec.target.port}), which has "
            f"one key for all; an encrypted resend would make the live stream unreadable, so nothing is sent: give "
            f"resends a receiver port of their own and delete sharedWithLiveStream.",
        )
    return overlapping_window(diode, observed)
