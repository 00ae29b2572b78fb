"""Why the pods of a Job do not start, as a reason and a message; must not know the owner of the Job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.reasons import Reason

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedJob, ObservedPod

REJECTED_AFTER = timedelta(seconds=30)
"""A Job that has no pods after this time is not slow: the API server rejects its pods."""
SLOW_AFTER = timedelta(minutes=5)
"""How long a scheduled pod may take to start before it is reported. Its status is ContainerCreating both while a large
image is pulled and while a volume is missing; only the events of the pod show which."""
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})


class Trouble(NamedTuple):
    """Why pods do not start."""

    reason: Reason
    message: str


def trouble_of(
    job: ObservedJob, pods: Iterable[ObservedPod], now: datetime, *, slow_after: timedelta = SLOW_AFTER
) -> Trouble | None:
    """Return why the first pending pod of a running Job does not start; ``None`` if there is no problem.

    Args:
        job: a Job that has not ended.
        pods: the pods of the Job.
        now: the current time.
        slow_after: how long a scheduled pod may take to start.
    """
    sorted_pods = sorted(pods, key=lambda pod: (pod.index, pod.meta.name))
    if not sorted_pods and not job.active and now - job.meta.created >= REJECTED_AFTER:
        return Trouble(
            Reason.POD_REJECTED,
            f"The API server rejects the pods of Job {job.meta.name} because of pod security, a quota or an "
            f"admission policy; see kubectl describe job {job.meta.name}.",
        )
    for pod in sorted_pods:
        if pod.phase == "Pending" and not pod.meta.deleting and (trouble := pod_trouble(pod, now, slow_after)):
            return trouble
    return None


def lost_message(pod: ObservedPod) -> str:
    """Return the message about a pod whose node is not ready."""
    since = "" if pod.lost_since is None else f" since {moment_text(pod.lost_since)}"
    return (
        f"Node {pod.node} of pod {pod.meta.name} has not been ready{since}, so the state of the pod is unknown. "
        f"The work resumes when the node is ready again, or on another node that matches the Diode's nodeSelector "
        f"after the pod is deleted (docs/runbooks/GaplessDiodeNodeLost.md)."
    )


def unfinished_stop(pods: Iterable[ObservedPod]) -> str:
    """Return a sentence about the pods that still run, or may, after a stop; empty if none does.

    A pod that was deleted runs until its node says that it has ended: a status must not claim more than that.
    """
    running = [pod for pod in pods if not pod.ended]
    lost = next((pod for pod in running if pod.is_lost), None)
    if lost is not None:
        since = "" if lost.lost_since is None else f" since {moment_text(lost.lost_since)}"
        return (
            f"Node {lost.node} of pod {lost.meta.name} has not been ready{since}, so it is unknown whether the pod has "
            f"stopped; look at the node itself."
        )
    if not running:
        return ""
    others = f" and {len(running) - 1:,} more are" if len(running) > 1 else " is"
    return f"Pod {running[0].meta.name}{others} being stopped."


def suspended_message(pods: Iterable[ObservedPod], at_rest: str) -> str:
    """Return the message while spec.suspend is true: what has not ended yet, and `at_rest` once all has."""
    unfinished = unfinished_stop(pods)
    return f"spec.suspend is true. {unfinished}" if unfinished else at_rest


def pod_trouble(pod: ObservedPod, now: datetime, slow_after: timedelta = SLOW_AFTER) -> Trouble | None:
    """Return why a pending pod does not start; ``None`` if it may still start."""
    name, why = pod.meta.name, pod.waiting_reason
    detail = f": {pod.waiting_message}" if pod.waiting_message else ""
    if why in _IMAGE:
        return Trouble(Reason.IMAGE_PULL_FAILED, f"The node cannot pull the image of pod {name} ({why}{detail}).")
    if why == "Unschedulable":
        return Trouble(Reason.POD_UNSCHEDULABLE, f"Pod {name} cannot be scheduled{detail}")
    if why:
        return Trouble(Reason.MOUNT_FAILED, f"Pod {name} cannot start ({why}{detail}).")
    if pod.node and not pod.has_begun and now - pod.meta.created >= slow_after:
        return Trouble(
            Reason.POD_SLOW,
            f"Pod {name} has not started for more than {slow_after.total_seconds():.0f} seconds: its image is still "
            f"being pulled, or a Secret, ConfigMap or volume that it mounts is missing; see kubectl describe pod "
            f"{name}.",
        )
    return None
