"""Which Resends have a turn on a Diode; must not know how a Resend is carried out.

Turns follow from what exists: the Resends that wait, those that run, and pods that have not ended. They are written
into the Diode's status, which has one writer, and a Resend starts only when it finds its turn there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from gapless_api.v1alpha1.conditions import ConditionType, is_true
from gapless_api.v1alpha1.diode import ActiveResend, Diode
from gapless_operator.common.observed import UID_LABEL
from gapless_operator.sending.queries import PLAN, SEND, queue_order, uses_turn, waits_for_turn

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.sending.observed import DiodeObserved

MAX_ACTIVE = 32
"""In the status: as many as a Diode may allow, of each role."""
_MODES: Mapping[str, Literal["Send", "Plan"]] = {SEND: "Send", PLAN: "Plan"}
"""By role: the mode in the status."""


class Turns(NamedTuple):
    """Who has a turn, and how many wait."""

    active: tuple[ActiveResend, ...]
    """Sorted by name."""
    queued: int
    """How many Resends wait without a turn."""


def assign_turns(diode: Diode, observed: DiodeObserved, *, ready: bool, now: datetime) -> Turns:
    """Decide which Resends may send and which may plan; the limit applies to each of the two separately.

    A running Resend keeps its turn, even if the limits are lower now. A turn that was assigned and is not used yet is
    kept while the link is ready, which plans do not need. Free slots go to the waiting Resends in the order of
    `queries.queue_order`.

    Args:
        diode: with the turns that its status has.
        observed: Resends, their pods, the other Diodes.
        ready: whether the link may be used.
        now: when new turns begin.
    """
    name = diode.metadata.name
    resends = sorted((resend for resend in observed.resends if resend.spec.diode_ref.name == name), key=queue_order)
    send = _turns(diode, observed, resends, role=SEND, may_begin=ready, now=now)
    plan = _turns(diode, observed, resends, role=PLAN, may_begin=True, now=now)
    active = sorted([*send.active, *plan.active], key=lambda entry: (entry.name, entry.resend_uid, entry.mode))
    return Turns(tuple(active[:MAX_ACTIVE]), send.queued + plan.queued)


def has_turn(diode: Diode, uid: str, role: str) -> bool:
    """Return whether a Resend has its turn on the Diode for Jobs of a role."""
    return any(entry.resend_uid == uid and entry.mode == _MODES[role] for entry in diode.status.active)


def is_sending(diode: Diode) -> bool:
    """Return whether any Resend has a turn to send over a Diode."""
    return any(entry.mode == _MODES[SEND] for entry in diode.status.active)


def _turns(  # noqa: PLR0913 -- what decides a turn
    diode: Diode, observed: DiodeObserved, resends: list[Resend], *, role: str, may_begin: bool, now: datetime
) -> Turns:
    """Assign the turns of one role to the Resends of the Diode, which are in the order of the queue."""
    assigned = {entry.resend_uid: entry for entry in diode.status.active if entry.mode == _MODES[role]}
    running = {
        pod.meta.labels.get(UID_LABEL) for pod in observed.sender_pods if pod.meta.role == role and not pod.ended
    }
    kept = [
        _entry(resend, assigned, role, now)
        for resend in resends
        if (uid := resend.metadata.uid) in running
        or uses_turn(resend, role)
        or (may_begin and uid in assigned and waits_for_turn(resend, role))
    ]
    existing = {resend.metadata.uid for resend in resends}
    # The pods of a deleted Resend send until they have saved their progress.
    kept += [entry for uid, entry in assigned.items() if uid in running and uid not in existing]
    served = {entry.resend_uid for entry in kept}
    waiting = [resend for resend in resends if waits_for_turn(resend, role) and resend.metadata.uid not in served]
    candidates = waiting if role == PLAN else _drop_duplicate_work(waiting, {entry.identity for entry in kept})
    free = _free_slots(diode, observed, candidates, len(kept), role) if may_begin else 0
    admitted = [_entry(resend, assigned, role, now) for resend in candidates[:free]]
    return Turns((*kept, *admitted), len(waiting) - len(admitted))


def _drop_duplicate_work(waiting: list[Resend], running: set[str | None]) -> list[Resend]:
    """Drop Resends whose work runs or is ahead in the queue: two would share one checkpoint."""
    seen, unique = set(running), []
    for resend in waiting:
        identity = resend.status.identity
        if identity is None or identity not in seen:
            unique.append(resend)
        seen.add(identity)
    return unique


def lane_mates(diode: Diode, others: Iterable[Diode]) -> list[Diode]:
    """Return the Diodes of the same namespace whose encrypted resends reach the same receiver, by name.

    A receiver has one key for all its senders, so the same target is the same lane, even if the lane names differ.
    """
    encryption = diode.spec.encryption
    if encryption is None:
        return []
    mates = [
        other
        for other in others
        if other.metadata.namespace == diode.metadata.namespace
        and other.metadata.name != diode.metadata.name
        and not other.metadata.deleting
        and (theirs := other.spec.encryption) is not None
        and (other.spec.target == diode.spec.target or (theirs.lane is not None and theirs.lane == encryption.lane))
    ]
    return sorted(mates, key=lambda mate: mate.metadata.name)


def _free_slots(diode: Diode, observed: DiodeObserved, waiting: list[Resend], used: int, role: str) -> int:
    """Return how many more may start; plans do not announce a key, so they ignore the lane."""
    if diode.spec.encryption is None or role == PLAN:
        return max(diode.spec.max_concurrent_resends - used, 0)
    mates = lane_mates(diode, observed.other_diodes)
    if used or not waiting or any(map(is_sending, mates)):
        return 0
    # Two Diodes that are reconciled at the same time must not both take a free lane: only the first in order may.
    ready = {mate.metadata.name for mate in mates if is_true(mate.status.conditions, ConditionType.READY)}
    rivals = [
        resend for resend in observed.resends if resend.spec.diode_ref.name in ready and waits_for_turn(resend, SEND)
    ]
    return int(all(queue_order(waiting[0]) <= queue_order(rival) for rival in rivals))


def _entry(resend: Resend, assigned: Mapping[str, ActiveResend], role: str, now: datetime) -> ActiveResend:
    before = assigned.get(resend.metadata.uid)
    return ActiveResend(
        name=resend.metadata.name,
        resend_uid=resend.metadata.uid,
        mode=_MODES[role],
        attempt=resend.status.attempt,
        since=before.since if before is not None else now,
        identity=resend.status.identity or (before.identity if before is not None else None),
    )
