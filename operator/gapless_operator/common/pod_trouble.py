"""Owns why a Job's pods do not start, as a reason and a sentence; must not know whose Job it is or what follows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_operator.common.observed import ObservedJob, ObservedPod

REJECTED_AFTER = timedelta(seconds=30)
"""A Job without any pod is not that slow: the API server refuses its pods."""
SLOW_AFTER = timedelta(minutes=5)
"""A pod that has a node and no start by then is worth a word. Its status says ContainerCreating while a large image is
loaded, and also for ever when a volume is missing; only an event of the pod tells which."""
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})


class Trouble(NamedTuple):
    """Why pods do not start."""

    reason: Reason
    message: str


def trouble_of(
    job: ObservedJob, pods: Iterable[ObservedPod], now: datetime, *, slow_after: timedelta = SLOW_AFTER
) -> Trouble | None:
    """Find why the first pod of a running Job that does not start does not; ``None`` while all is well.

    Args:
        job: that has not ended.
        pods: of the Job.
        now: the time; being slow is trouble only after a while.
        slow_after: after how long, where nothing else is known.
    """
    found = sorted(pods, key=lambda pod: (pod.index, pod.meta.name))
    if not found and not job.active and now - job.meta.created >= REJECTED_AFTER:
        return Trouble(
            Reason.POD_REJECTED,
            f"The API server does not let the Job {job.meta.name} have pods; kubectl describe job {job.meta.name} says "
            f"why (pod security, a quota or an admission policy).",
        )
    for pod in found:
        if pod.phase == "Pending" and not pod.meta.deleting and (trouble := pod_trouble(pod, now, slow_after)):
            return trouble
    return None


def lost_message(pod: ObservedPod) -> str:
    """The message about a pod whose node is not ready."""
    since = "" if pod.lost_since is None else f" since {moment_text(pod.lost_since)}"
    return (
        f"Node {pod.node}, on which pod {pod.meta.name} runs, has not been ready{since}, so its state is unknown. "
        f"It continues when the node is back, or on another node with the Diode's labels when the pod is gone for good "
        f"(docs/runbooks/GaplessDiodeNodeLost.md)."
    )


def pod_trouble(pod: ObservedPod, now: datetime, slow_after: timedelta = SLOW_AFTER) -> Trouble | None:
    """Find why a pending pod does not start; ``None`` while it is only slow."""
    name, why = pod.meta.name, pod.waiting_reason
    detail = f": {pod.waiting_message}" if pod.waiting_message else ""
    if why in _IMAGE:
        return Trouble(Reason.IMAGE_PULL_FAILED, f"The node cannot get the image of pod {name} ({why}{detail}).")
    if why == "Unschedulable":
        return Trouble(Reason.POD_UNSCHEDULABLE, f"No node takes pod {name}{detail}")
    if why:
        return Trouble(Reason.MOUNT_FAILED, f"Pod {name} cannot start ({why}{detail}).")
    if pod.node and not pod.has_begun and now - pod.meta.created >= slow_after:
        return Trouble(
            Reason.POD_SLOW,
            f"Pod {name} has not started for over {slow_after.total_seconds():.0f} seconds: its image is still being "
            f"loaded, or a Secret, ConfigMap or volume that it mounts is missing; kubectl describe pod {name} says "
            f"which.",
        )
    return None
