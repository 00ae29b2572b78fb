"""How long to wait for the log of a pod that has ended; must not know the owner of the pod."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod

LOG_GRACE = timedelta(seconds=30)
"""How long the watch of a pod, or its log, may lag behind the end of its Job."""
UNREADABLE_GRACE = timedelta(minutes=10)
"""How long a log may be unreadable because the kubelet of the node does not respond."""


def is_being_read(pods: Collection[ObservedPod]) -> bool:
    """Return whether the log of a pod is readable but was not read to its end yet, however long ago the pod ended."""
    return any(pod.is_unread and not pod.log_problem for pod in pods)


def unreadable_until(ended_at: datetime, pods: Collection[ObservedPod]) -> datetime:
    """Return the time until which to wait for unreadable logs.

    The operator may have started long after the pods ended, so the grace period begins when reading first fails.

    Args:
        ended_at: when the work of the pods ended.
        pods: the pods whose logs are needed.
    """
    return max([ended_at, *(pod.log_problem_since for pod in pods if pod.log_problem_since)]) + UNREADABLE_GRACE
