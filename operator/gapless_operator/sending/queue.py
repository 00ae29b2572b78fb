"""Owns whose turn it is on a Diode; must not know how a Resend is carried out.

The answer is computed from what is: who asks, who runs, whose pods still live. It is written into the Diode's status,
which has one writer, and only from there a Resend learns that it may start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from gapless_api.v1alpha1.conditions import ConditionType, is_true
from gapless_api.v1alpha1.diode import ActiveResend
from gapless_operator.common.observed import UID_LABEL
from gapless_operator.sending.queries import PLAN, SEND, asks_for_turn, order, uses_turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.sending.observed import DiodeObserved

MOST_ACTIVE = 32
"""What the status can hold: as many as a Diode may allow, of each role."""
_MODES: Mapping[str, Literal["Send", "Plan"]] = {SEND: "Send", PLAN: "Plan"}
"""By role, what the status says."""


class Turns(NamedTuple):
    """Whose turn it is."""

    active: tuple[ActiveResend, ...]
    """By name."""
    queued: int
    """How many ask in vain."""


def turns(diode: Diode, observed: DiodeObserved, *, ready: bool, now: datetime) -> Turns:
    """Decide who may send, and who may plan: as many pods make plans as may send, beside them and by the same rules.

    Who runs keeps its turn, whatever the limits say by now. A turn that was given and not yet used is kept while the
    link is ready, for which plans need not wait. The rest of the room goes to those who ask, in the order of
    `queries.order`.

    Args:
        diode: as its status says it was.
        observed: Resends, their pods, the other Diodes.
        ready: whether anybody may send.
        now: when new turns begin.
    """
    name = diode.metadata.name
    mine = sorted((resend for resend in observed.resends if resend.spec.diode_ref.name == name), key=order)
    send = _turns(diode, observed, mine, role=SEND, may_begin=ready, now=now)
    plan = _turns(diode, observed, mine, role=PLAN, may_begin=True, now=now)
    active = sorted([*send.active, *plan.active], key=lambda entry: (entry.name, entry.resend_uid, entry.mode))
    return Turns(tuple(active[:MOST_ACTIVE]), send.queued + plan.queued)


def has_turn(diode: Diode, uid: str, role: str) -> bool:
    """Whether the Diode has given a Resend its turn for Jobs of a role."""
    return any(entry.resend_uid == uid and entry.mode == _MODES[role] for entry in diode.status.active)


def is_sending(diode: Diode) -> bool:
    """Whether anybody may use the link of a Diode."""
    return any(entry.mode == _MODES[SEND] for entry in diode.status.active)


def _turns(  # noqa: PLR0913 -- what decides a turn
    diode: Diode, observed: DiodeObserved, mine: list[Resend], *, role: str, may_begin: bool, now: datetime
) -> Turns:
    """The turns of one role, for all Resends over the Diode in the order in which they have them."""
    given = {entry.resend_uid: entry for entry in diode.status.active if entry.mode == _MODES[role]}
    living = {pod.meta.labels.get(UID_LABEL) for pod in observed.sender_pods if pod.meta.role == role and not pod.ended}
    kept = [
        _entry(resend, given, role, now)
        for resend in mine
        if (uid := resend.metadata.uid) in living
        or uses_turn(resend, role)
        or (may_begin and uid in given and asks_for_turn(resend, role))
    ]
    known = {resend.metadata.uid for resend in mine}
    # The pods of a Resend that is gone live until they have saved their progress, and send as long.
    kept += [entry for uid, entry in given.items() if uid in living and uid not in known]
    taken = {entry.resend_uid for entry in kept}
    waiting = [resend for resend in mine if asks_for_turn(resend, role) and resend.metadata.uid not in taken]
    can_go = waiting if role == PLAN else _each_work_once(waiting, {entry.identity for entry in kept})
    room = _room(diode, observed, can_go, len(kept), role) if may_begin else 0
    admitted = [_entry(resend, given, role, now) for resend in can_go[:room]]
    return Turns((*kept, *admitted), len(waiting) - len(admitted))


def _each_work_once(waiting: list[Resend], running: set[str | None]) -> list[Resend]:
    """Who waits, without those whose work runs already or goes before: two would share one checkpoint."""
    seen, found = set(running), []
    for resend in waiting:
        identity = resend.status.identity
        if identity is None or identity not in seen:
            found.append(resend)
        seen.add(identity)
    return found


def lane_mates(diode: Diode, others: Iterable[Diode]) -> list[Diode]:
    """The Diodes of the same namespace whose encrypted resends reach the same receiver, by name.

    A receiver has one key for all who send to it, so the same target is the same lane, whatever the lanes are called.
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


def _room(diode: Diode, observed: DiodeObserved, waiting: list[Resend], taken: int, role: str) -> int:
    """How many more may start; who plans announces no key."""
    if diode.spec.encryption is None or role == PLAN:
        return max(diode.spec.max_concurrent_resends - taken, 0)
    mates = lane_mates(diode, observed.other_diodes)
    if taken or not waiting or any(map(is_sending, mates)):
        return 0
    # Two Diodes that check at the same time must not both find the lane free: only the first of all may go.
    ready = {mate.metadata.name for mate in mates if is_true(mate.status.conditions, ConditionType.READY)}
    rivals = [
        resend for resend in observed.resends if resend.spec.diode_ref.name in ready and asks_for_turn(resend, SEND)
    ]
    return int(all(order(waiting[0]) <= order(rival) for rival in rivals))


def _entry(resend: Resend, given: Mapping[str, ActiveResend], role: str, now: datetime) -> ActiveResend:
    before = given.get(resend.metadata.uid)
    return ActiveResend(
        name=resend.metadata.name,
        resend_uid=resend.metadata.uid,
        mode=_MODES[role],
        attempt=resend.status.attempt,
        since=before.since if before is not None else now,
        identity=resend.status.identity or (before.identity if before is not None else None),
    )
