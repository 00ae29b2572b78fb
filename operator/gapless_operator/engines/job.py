"""How work runs as a Job, with Spark in local mode or without Spark, and the attempts of such Jobs.

Must not know when work is due or what its result means.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import labels_of, owned_manifest
from gapless_operator.common.plan import Manifest, Ref
from gapless_operator.common.pod_trouble import trouble_of
from gapless_operator.engines.engine import Attempt, EngineName, Phase, Run, pods_of
from gapless_operator.engines.pod import container, pod, pod_memory

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.settings import Program


class JobEngine:
    """A Job with one pod, in which Spark runs in local mode unless ``engine.reader`` is Local."""

    name: EngineName = "Job"

    def manifest(self, run: Run, program: Program) -> Manifest:
        """Return a Job without retries: the operator decides whether to retry."""
        engine = run.options
        memory = pod_memory(engine.driver.memory, cores=engine.driver.cores)
        runner = container(run.driver, name=run.role) | {
            "image": engine.image or program.image,
            "imagePullPolicy": program.pull_policy,
            "command": ["gapless"],
            "args": list(run.arguments),
            "resources": {
                "requests": {"cpu": engine.driver.cpu or str(engine.driver.cores), "memory": memory},
                "limits": {"memory": memory},
            },
        }
        template: dict[str, Any] = {
            **pod(run.driver, [runner]),
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
        }
        account = engine.service_account_name or program.service_account
        if account:
            template["serviceAccountName"] = account  # for its image pull secrets; no token is mounted
        spec: dict[str, Any] = {
            "backoffLimit": 0,
            "template": program.pod_templates.applied_to(
                run.owner.metadata.namespace, labels_of(run.owner, role=run.role), template
            ),
        }
        if run.deadline_seconds is not None:
            # The operator's own deadline ends first, with a better message; this one applies while it is not running.
            spec["activeDeadlineSeconds"] = run.deadline_seconds
        return owned_manifest(
            run.owner,
            {"apiVersion": "batch/v1", "kind": "Job", "spec": spec},
            name=run.name,
            role=run.role,
            annotations=run.annotations,
        )

    def ref(self, attempt: Attempt) -> Ref:
        """Return the Job, for deletion."""
        return Ref("batch/v1", "Job", attempt.name, attempt.meta.uid)


def job_attempts(
    jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod], now: datetime, *, role: str
) -> list[Attempt]:
    """Return the attempts of the Jobs with a `role`."""
    pods = list(pods)
    return [_attempt(job, pods, now) for job in jobs if job.meta.role == role]


def _attempt(job: ObservedJob, pods: list[ObservedPod], now: datetime) -> Attempt:
    job_pods = pods_of(pods, {"batch.kubernetes.io/job-name": job.meta.name})
    driver = job_pods[-1] if job_pods else None
    trouble = None
    if job.complete:
        phase = Phase.SUCCEEDED
    elif job.failed:
        phase = Phase.FAILED
    elif driver is not None and driver.has_begun:
        phase = Phase.RUNNING
    else:
        phase = Phase.PENDING
        trouble = trouble_of(job, job_pods, now)
    return Attempt(
        meta=job.meta,
        engine="Job",
        phase=phase,
        started=None if phase is Phase.PENDING else ((driver.began if driver is not None else None) or job.started),
        finished=job.finished,
        error_message=f"{job.failure_reason}: {job.failure_message}".strip(": ") if job.failed else "",
        trouble=trouble,
        driver=driver,
    )
