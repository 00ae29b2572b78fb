"""Owns what has to be deleted so that nothing of an owner runs any more; must not know why it must not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_operator.common.plan import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_operator.common.observed import ObservedJob, ObservedPod


def job_ref(job: ObservedJob) -> Ref:
    """The Job, to delete it and its pods."""
    return Ref("batch/v1", "Job", job.meta.name, job.meta.uid)


def all_that_runs(jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod]) -> tuple[Ref, ...]:
    """The Jobs that have not ended, then the pods that have not.

    A pod is named as well as its Job, because the Job may be gone without it (``--cascade=orphan``), and because nobody
    should have to wait for the garbage collector.
    """
    running = [job_ref(job) for job in jobs if not job.ended and not job.meta.deleting]
    living = [Ref("v1", "Pod", pod.meta.name, pod.meta.uid) for pod in pods if not pod.ended and not pod.meta.deleting]
    return (*running, *living)
