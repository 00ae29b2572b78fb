"""The conditions of a GapScan, one function per case; must not know what is done in that case.

`Ready` is about the last scan that has ended: it does not change while the next one runs, so that the duration of an
alert does not start again with each attempt. Unless the cleanup.policy of a gaps topic is exactly compact, its records
expire; what the expired records covered is unknown, which is not a success.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gapless_api.gaps.cleanup_policy import COMPACT, UNKNOWN, warning
from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.plan import Event, EventType
from gapless_operator.engines.endings import NEEDS_USER_ACTION, reason_of, stalled_by
from gapless_operator.scanning.scheduling import COMPLETED, retry_at

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.scanning.context import Context

_BLOCKS_START = frozenset({Reason.ENGINE_UNAVAILABLE, Reason.WRITE_REFUSED})
"""Reasons that prevent a scan from starting; no scan ends with one, so none applies once a scan runs."""
"""No action is required."""
_NOT_ENDED = ConditionUpdate(None, Reason.NEVER_SCANNED, "The first scan has not ended yet.")
Updates = dict[ConditionType, ConditionUpdate]


def after_attempt(context: Context, last: LastAttempt | None) -> Updates:
    """Return the conditions after the last attempt, while none runs."""
    if last is None or last.outcome is None:
        return {
            ConditionType.READY: ConditionUpdate(None, Reason.NEVER_SCANNED, "No scan has run yet."),
            ConditionType.RECONCILING: ConditionUpdate(
                False, Reason.SCHEDULED, "The first scan waits for its scheduled time."
            ),
            ConditionType.STALLED: NOT_STALLED,
        }
    reason, retry = reason_of(last, Reason.SCAN_FAILED), retry_at(context.resource, last)
    reconciling, stalled = _reconciling_when_idle(context), NOT_STALLED
    if retry is not None:
        reconciling = ConditionUpdate(True, reason, f"The next attempt begins at {retry:%H:%M:%S} UTC.")
    if reason not in COMPLETED | {Reason.SUSPENDED} and (
        reason in NEEDS_USER_ACTION or (retry is None and context.resource.spec.schedule is None)
    ):
        stalled = ConditionUpdate(True, reason, last.message or "")
    return {
        ConditionType.READY: _ready_after(last),
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: stalled,
    }


def working(context: Context, message: str, attempt: Attempt | None = None) -> Updates:
    """Return the conditions while an attempt starts or runs.

    Args:
        context: what is known.
        message: its progress.
        attempt: as its engine describes it; ``None`` for one that is only being written.
    """
    ready = _ready_at_start(context) if attempt is None else _ready_while_running(context, attempt)
    stalled = NOT_STALLED if attempt is None else stalled_by(attempt, context.now)
    updates = {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.SCANNING, message),
        ConditionType.STALLED: stalled,
    }
    return updates if ready is None else {ConditionType.READY: ready, **updates}


def blocked(reason: Reason, message: str) -> Updates:
    """Return the conditions while no attempt can start before a person acts."""
    return {
        ConditionType.READY: ConditionUpdate(False, reason, message),
        ConditionType.RECONCILING: ConditionUpdate(False, reason, message),
        ConditionType.STALLED: ConditionUpdate(True, reason, message),
    }


def compaction_of(policy: str | None, topic: str) -> ConditionUpdate:
    """Return the condition `GapTopicCompacted`."""
    if policy is None:
        return ConditionUpdate(None, Reason.NOT_A_GAP_TOPIC, "The last scan was an audit.")
    if policy == COMPACT:
        return ConditionUpdate(True, Reason.COMPACTED, f"The cleanup.policy of topic {topic} is compact.")
    if policy == UNKNOWN:
        return ConditionUpdate(None, Reason.POLICY_UNKNOWN, warning(topic, policy))
    return ConditionUpdate(False, Reason.NOT_COMPACTED, warning(topic, policy))


def compaction_conditions(
    before: Iterable[Condition], policy: str | None, topic: str
) -> tuple[Updates, tuple[Event, ...]]:
    """Return the condition after a scan and an event for a new reason; nothing where only audits have run."""
    compacted = condition(before, ConditionType.GAP_TOPIC_COMPACTED)
    if policy is None and compacted is None:
        return {}, ()
    update = compaction_of(policy, topic)
    is_new = compacted is None or compacted.reason != update.reason
    events = (
        (Event(EventType.WARNING, update.reason, update.message),) if is_new and policy not in {None, COMPACT} else ()
    )
    return {ConditionType.GAP_TOPIC_COMPACTED: update}, events


def _ready_after(last: LastAttempt) -> ConditionUpdate:
    """Return `Ready` after an attempt that has ended."""
    reason = reason_of(last, Reason.SCAN_FAILED)
    return ConditionUpdate(reason in COMPLETED, reason, last.message or "")


def _ready_at_start(context: Context) -> ConditionUpdate:
    """Return `Ready` when an attempt starts: nothing prevents it any more."""
    before = context.track.last
    return _NOT_ENDED if before is None or before.outcome is None else _ready_after(before)


def _ready_while_running(context: Context, attempt: Attempt) -> ConditionUpdate | None:
    """Return `Ready` while an attempt runs; ``None`` where it already says how the previous scan ended."""
    status = context.resource.status
    before = status.last_attempt
    if before is not None and before.name != attempt.name and before.outcome is not None:
        return _ready_after(before)  # The operator died before the status had this one.
    ready = condition(status.conditions, ConditionType.READY)
    if ready is None:
        return _NOT_ENDED
    # It is about a spec that was applied after the attempt had started: no scan has ended since.
    is_younger = ready.status == "False" and ready.observed_generation > attempt.generation
    if ready.reason not in _BLOCKS_START and not is_younger:
        return None
    if status.last_scan_time is None:
        return _NOT_ENDED
    missing = status.missing_events or 0
    reason = Reason.GAPS_FOUND if missing else Reason.NOTHING_MISSING
    found = "1 event is" if missing == 1 else f"{missing:,} events are"
    return ConditionUpdate(
        True, reason, f"{found} missing according to the scan of {status.last_scan_time:%Y-%m-%d %H:%M} UTC."
    )


def _reconciling_when_idle(context: Context) -> ConditionUpdate:
    """Return `Reconciling` while no attempt runs."""
    if context.schedule is not None:
        following = context.schedule.next_after(context.now)
        when = f"The next scan is due at {following:%Y-%m-%d %H:%M} UTC." if following is not None else ""
        return ConditionUpdate(False, Reason.SCHEDULED, when)
    return ConditionUpdate(False, Reason.SETTLED)
