"""Owns what the conditions of a GapScan say in each situation; must not know how a situation comes about.

`Ready` is about the last scan that has ended: while the next one runs it goes on saying how that one ended, and an
alert that waits for it does not begin anew with each try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import Said
from gapless_operator.scanning.outcome import ANSWERED, NEED_A_PERSON, TROUBLE_GRACE
from gapless_operator.scanning.scheduling import reason_of, retry_at

if TYPE_CHECKING:
    from gapless_api.v1alpha1.scan_status import LastAttempt
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.scanning.context import Situation

_KEPT_A_SCAN_FROM_BEGINNING = frozenset({Reason.ENGINE_UNAVAILABLE, Reason.WRITE_REFUSED})
"""What is no longer so once a scan runs; no scan ends with it."""


def judged(situation: Situation, last: LastAttempt | None) -> dict[ConditionType, Said]:
    """The conditions that follow from the last attempt, when nothing runs."""
    if last is None or last.outcome is None:
        waiting = "The first scan waits for its time."
        return {
            ConditionType.READY: Said(None, Reason.NEVER_SCANNED, "There was no scan yet."),
            ConditionType.RECONCILING: Said(False, Reason.SCHEDULED, waiting),
            ConditionType.STALLED: not_stalled(),
        }
    reason, message = reason_of(last), last.message or ""
    ready = ready_after(last)
    if reason in ANSWERED:
        return {
            ConditionType.READY: ready,
            ConditionType.RECONCILING: _settled(situation),
            ConditionType.STALLED: not_stalled(),
        }
    retry = retry_at(situation, last)
    said = {ConditionType.READY: ready, ConditionType.RECONCILING: _settled(situation)}
    if retry is not None:
        again = f"It is tried again at {retry:%H:%M:%S} UTC."
        said[ConditionType.RECONCILING] = Said(True, reason, again)
    needs_a_person = reason in NEED_A_PERSON or (retry is None and situation.scan.spec.schedule is None)
    said[ConditionType.STALLED] = Said(True, reason, message) if needs_a_person else not_stalled()
    return said


def at_work(situation: Situation, message: str, attempt: Attempt | None = None) -> dict[ConditionType, Said]:
    """The conditions while an attempt begins or runs.

    Args:
        situation: what is known.
        message: how far it is.
        attempt: as its engine describes it; ``None`` for one that is only being written.
    """
    ready = _ready_at_the_beginning(situation) if attempt is None else _ready_meanwhile(situation, attempt)
    stalled = not_stalled() if attempt is None else _stalled_by(situation, attempt)
    said = {ConditionType.RECONCILING: Said(True, Reason.SCANNING, message), ConditionType.STALLED: stalled}
    return said if ready is None else {ConditionType.READY: ready, **said}


def stuck(reason: Reason, message: str) -> dict[ConditionType, Said]:
    """Nothing can begin before a person has acted."""
    return {
        ConditionType.READY: Said(False, reason, message),
        ConditionType.RECONCILING: Said(False, reason, message),
        ConditionType.STALLED: Said(True, reason, message),
    }


def ready_after(last: LastAttempt) -> Said:
    """What `Ready` says after an attempt that has ended."""
    reason = reason_of(last)
    return Said(reason in ANSWERED, reason, last.message or "")


def not_stalled() -> Said:
    """Nobody has to act."""
    return Said(False, Reason.NOT_STALLED)


def _ready_at_the_beginning(situation: Situation) -> Said:
    """Whatever was said since about why no attempt can begin is over."""
    before = situation.last
    return _not_ended() if before is None or before.outcome is None else ready_after(before)


def _ready_meanwhile(situation: Situation, attempt: Attempt) -> Said | None:
    """``None`` where `Ready` says already how the scan before ended."""
    status = situation.scan.status
    before = status.last_attempt
    if before is not None and before.name != attempt.name and before.outcome is not None:
        return ready_after(before)  # We died before the status knew of this one.
    known = condition(status.conditions, ConditionType.READY)
    if known is None:
        return _not_ended()
    # Said about a spec that was applied after the attempt had begun: no scan has ended since.
    is_younger = known.status == "False" and known.observed_generation > attempt.generation
    if known.reason not in _KEPT_A_SCAN_FROM_BEGINNING and not is_younger:
        return None
    if status.last_scan_time is None:
        return _not_ended()
    missing = status.missing_events or 0
    reason = Reason.GAPS_FOUND if missing else Reason.NOTHING_MISSING
    found = "1 event is" if missing == 1 else f"{missing:,} events are"
    return Said(True, reason, f"{found} missing, the scan of {status.last_scan_time:%Y-%m-%d %H:%M} UTC says.")


def _not_ended() -> Said:
    return Said(None, Reason.NEVER_SCANNED, "The first scan has not ended yet.")


def _stalled_by(situation: Situation, attempt: Attempt) -> Said:
    """Whether a person must act for an attempt to start; the attempt waits for that until its deadline."""
    trouble = attempt.trouble
    is_new = situation.now - attempt.meta.created < TROUBLE_GRACE
    if trouble is None or trouble.reason not in NEED_A_PERSON or is_new:
        return not_stalled()
    return Said(True, trouble.reason, trouble.message)


def _settled(situation: Situation) -> Said:
    if situation.schedule is not None:
        following = situation.schedule.next_after(situation.now)
        when = f"The next scan is due at {following:%Y-%m-%d %H:%M} UTC." if following is not None else ""
        return Said(False, Reason.SCHEDULED, when)
    return Said(False, Reason.SETTLED)
