"""Owns the pods of engine Workers: one Indexed Job that never ends, and what it says about them.

Must not know when they are due, nor what they copy. A container that ends is started again by the kubelet, a pod that
goes is replaced by the Job, and meanwhile the other workers take its lanes over; so one Job is one attempt, however
often its pods come and go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import labels_of, owned_manifest
from gapless_operator.engines.engine import Phase, pods_of
from gapless_operator.engines.job import job_attempts
from gapless_operator.engines.pod import container, pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.pod import Content

WORKERS_ROLE = "mirror-workers"
METRICS_PORT = 9464
_GRACE_SECONDS = 30
"""For the transactions that are open when a worker is stopped."""
_LOST_SECONDS = 20
"""After how long on a node that does not answer Kubernetes replaces a worker; its lanes have moved long before."""
_FOR_EVER = 2**31 - 1


def workers_manifest(  # noqa: PLR0913 -- the parts of an attempt
    mirror: Mirror,
    program: Program,
    content: Content,
    *,
    name: str,
    arguments: Iterable[str],
    annotations: Mapping[str, str],
) -> Manifest:
    """The Job that carries an attempt out, with as many pods as the spec says."""
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
    if program.service_account:
        template["serviceAccountName"] = program.service_account  # for its image pull secrets; no token is mounted
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": workers.count,
        "parallelism": workers.count,
        # How often something is tried again is the kubelet's to say, with its growing pauses.
        "backoffLimit": _FOR_EVER,
        "template": {"metadata": {"labels": labels}, "spec": template},
    }
    return owned_manifest(
        mirror,
        {"apiVersion": "batch/v1", "kind": "Job", "spec": spec},
        name=name,
        role=WORKERS_ROLE,
        annotations=annotations,
    )


def worker_attempts(jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod], now: datetime) -> list[Attempt]:
    """What the Jobs of a Mirror say about its attempts: one runs as soon as any of its pods has begun."""
    everything = list(pods)
    return [_as_one(attempt, everything) for attempt in job_attempts(jobs, everything, now, role=WORKERS_ROLE)]


def _as_one(attempt: Attempt, pods: list[ObservedPod]) -> Attempt:
    own = pods_of(pods, {"batch.kubernetes.io/job-name": attempt.name})
    begun = [one for one in own if one.has_begun]
    if attempt.phase is not Phase.PENDING or not begun:
        return attempt
    began = min((one.began for one in begun if one.began is not None), default=attempt.meta.created)
    return replace(attempt, phase=Phase.RUNNING, started=began, trouble=None, driver=begun[-1])


def since_the_last_pod(attempt: Attempt, pods: Iterable[ObservedPod]) -> Attempt:
    """An attempt as the deadline of its start sees it: a pod that replaces one of days ago begins only now."""
    own = pods_of(pods, {"batch.kubernetes.io/job-name": attempt.name})
    created = max([attempt.meta.created, *(pod.meta.created for pod in own)])
    return replace(attempt, meta=replace(attempt.meta, created=created))
