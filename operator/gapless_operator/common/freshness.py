"""How long the status may show figures after a pod's progress was last read; must not know any figure.

A figure that nothing looks at any more becomes wrong without a change of the status: a lag grows, a rate drops.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod

FRESH_FOR = timedelta(minutes=2)
"""For pods that log their progress every 10 seconds, whatever they wait for."""
SLOWLY_FRESH_FOR = timedelta(minutes=15)
"""For work on Spark, which logs nothing during a batch."""


def is_fresh(pod: ObservedPod, now: datetime, *, fresh_for: timedelta) -> bool:
    """Return whether the progress of a pod is new enough to show, or will be read in a moment."""
    if pod.output_changed_at is not None:
        return now - pod.output_changed_at < fresh_for
    if pod.log_problem_since is not None:
        return now - pod.log_problem_since < fresh_for
    return pod.is_unread and not pod.log_problem


def is_stale(pods: Collection[ObservedPod], since: datetime, now: datetime, *, fresh_for: timedelta) -> bool:
    """Return whether no progress of any of the pods of an attempt was read for too long.

    Args:
        pods: that should run; there may be none yet.
        since: when the attempt was created.
        now: the time.
        fresh_for: how long progress may be shown after it was read.
    """
    return now - since >= fresh_for and not any(is_fresh(pod, now, fresh_for=fresh_for) for pod in pods)


def observed_at(pods: Collection[ObservedPod]) -> datetime | None:
    """Return when the progress of the pods was last read, of all that have logged any; ``None`` if none has."""
    read = min((pod.output_changed_at for pod in pods if pod.output_changed_at is not None), default=None)
    return None if read is None else read.replace(microsecond=0)


def unreadable(pods: Collection[ObservedPod], now: datetime, *, fresh_for: timedelta) -> ConditionUpdate | None:
    """Return the state of work whose progress is unknown because no log can be read; ``None`` if one can."""
    if not pods or any(not pod.log_problem or is_fresh(pod, now, fresh_for=fresh_for) for pod in pods):
        return None
    pod = min(pods, key=lambda one: one.meta.name)
    since = "" if pod.log_problem_since is None else f" since {moment_text(pod.log_problem_since)}"
    return ConditionUpdate(
        None,
        Reason.PROGRESS_UNKNOWN,
        f"The log of pod {pod.meta.name} has been unreadable{since} ({pod.log_problem.rstrip('.')}), so it is unknown "
        f"whether it makes progress.",
    )
