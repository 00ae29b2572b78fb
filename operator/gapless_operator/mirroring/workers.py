"""The pods of engine Workers: one Indexed Job that never completes, and its state.

Must not know when it is due, nor what it copies. The kubelet restarts a container that exits, the Job replaces a pod
that is deleted, and meanwhile the other workers copy its lanes. So one Job is one attempt, however often its pods are
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import child_name, labels_of, owned_manifest
from gapless_operator.engines.engine import Attempt, Phase, pods_of
from gapless_operator.engines.job import job_attempts
from gapless_operator.engines.pod import Content, container, pod
from gapless_operator.mirroring.sql_container import with_sql_container

if TYPE_CHECKING:
    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program

WORKERS_ROLE = "mirror-workers"
METRICS_PORT = 9464
_GRACE_SECONDS = 30
"""To commit open transactions when a worker is stopped."""
_LOST_SECONDS = 20
"""How long a worker tolerates a node that does not respond; other workers get its lanes before."""
_NO_LIMIT = 2**31 - 1


def workers_manifest(  # noqa: PLR0913 -- the parts of an attempt
    mirror: Mirror,
    program: Program,
    content: Content,
    *,
    spark: Program,
    name: str,
    arguments: Iterable[str],
    annotations: Mapping[str, str],
) -> Manifest:
    """Return the Job of an attempt, with a pod for each worker; `spark` is for the container that evaluates SQL."""
    workers, labels = mirror.spec.workers, labels_of(mirror, role=WORKERS_ROLE)
    runner = container(content, name=WORKERS_ROLE) | {
        "image": program.image,
        "imagePullPolicy": program.pull_policy,
        "command": ["gapless"],
        "args": list(arguments),
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "resources": {
            "requests": {"cpu": workers.cpu, "memory": workers.memory},
            "limits": {"memory": workers.memory},
        },
    }
    template: dict[str, Any] = {
        **pod(content, [runner]),
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "tolerations": [
            {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute"}
            | {"tolerationSeconds": _LOST_SECONDS}
            for state in ("not-ready", "unreachable")
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
    }
    if mirror.spec.transform is not None:
        template = with_sql_container(template, mirror.spec, spark)
    if program.service_account:
        template["serviceAccountName"] = program.service_account  # for its image pull secrets; no token is mounted
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": workers.count,
        "parallelism": workers.count,
        # The kubelet restarts containers, with exponential back-off.
        "backoffLimit": _NO_LIMIT,
        "template": program.pod_templates.applied_to(mirror.metadata.namespace, labels, template),
    }
    return owned_manifest(
        mirror,
        {"apiVersion": "batch/v1", "kind": "Job", "spec": spec},
        name=name,
        role=WORKERS_ROLE,
        annotations=annotations,
    )


def disruption_budget(mirror: Mirror) -> Manifest:
    """Return what lets a drain of nodes evict one worker at a time. With one worker, it does not hold up a drain.

    A budget of pods of a Job can only say how many must stay.
    """
    labels, others = labels_of(mirror, role=WORKERS_ROLE), mirror.spec.workers.count - 1
    return owned_manifest(
        mirror,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": others, "selector": {"matchLabels": labels}},
        },
        name=child_name(mirror, WORKERS_ROLE),
        role=WORKERS_ROLE,
    )


def worker_attempts(jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod], now: datetime) -> list[Attempt]:
    """Return the attempts of a Mirror from its Jobs; an attempt runs as soon as one of its pods has started."""
    every = list(pods)
    return [_with_started_pods(attempt, every) for attempt in job_attempts(jobs, every, now, role=WORKERS_ROLE)]


def _with_started_pods(attempt: Attempt, pods: list[ObservedPod]) -> Attempt:
    own = pods_of(pods, {"batch.kubernetes.io/job-name": attempt.name})
    running = [each for each in own if each.has_begun]
    if attempt.phase is not Phase.PENDING or not running:
        return attempt
    started = min((each.began for each in running if each.began is not None), default=attempt.meta.created)
    return replace(attempt, phase=Phase.RUNNING, started=started, trouble=None, driver=running[-1])


def since_newest_pod(attempt: Attempt, pods: Iterable[ObservedPod]) -> Attempt:
    """Return the attempt as if created with its newest pod, from which the start deadline counts."""
    own = pods_of(pods, {"batch.kubernetes.io/job-name": attempt.name})
    created = max([attempt.meta.created, *(pod.meta.created for pod in own)])
    return replace(attempt, meta=replace(attempt.meta, created=created))
