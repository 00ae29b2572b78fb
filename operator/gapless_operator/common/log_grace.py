"""Owns how long the log of a pod that has ended is waited for; must not know whose pod it is or what follows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from gapless_operator.common.observed import ObservedPod

LOG_GRACE = timedelta(seconds=30)
"""For how long a pod whose Job has ended may still be unknown, running or silent for us."""
UNREADABLE_GRACE = timedelta(minutes=10)
"""For how long a log that is there may be unreadable, because the node's kubelet does not answer."""


def is_being_read(pods: Collection[ObservedPod]) -> bool:
    """Whether nobody has read a log to its end yet that can be read, however long ago its pod ended."""
    return any(pod.is_unread and not pod.log_problem for pod in pods)


def unreadable_until(ended_at: datetime, pods: Collection[ObservedPod]) -> datetime:
    """Until when logs that cannot be read are waited for.

    The operator may have begun long after the end of the pods: its grace begins when it is refused.

    Args:
        ended_at: when the work of the pods ended.
        pods: whose logs are needed.
    """
    return max([ended_at, *(pod.log_problem_since for pod in pods if pod.log_problem_since)]) + UNREADABLE_GRACE
