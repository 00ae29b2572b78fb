"""A pod whose Job or SparkApplication does not exist any more is stopped, also while its owner is suspended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from gapless_operator.common.observed import UID_LABEL
from gapless_operator.common.settings import OperatorSettings
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.planning import plan_for

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
SPECS: Mapping[str, dict[str, Any]] = {
    "Archive": {"kafkaRef": {"name": "k"}, "topics": ["t"], "storageRef": {"name": "s"}, "region": "r"},
    "GapScan": {"kafkaRef": {"name": "k"}, "source": {"gapTopic": {"topic": "gaps"}}},
    "Mirror": {"sourceRef": {"name": "k"}, "targetRef": {"name": "l"}, "topics": ["t"]},
    "Restore": {"kafkaRef": {"name": "k"}, "archiveRef": {"name": "a"}, "topics": [{"name": "t"}]},
}


class Nothing:
    """An API server that is not asked."""

    def get(self, *_: Any) -> None:
        raise AssertionError

    def log(self, *_: Any, **__: Any) -> None:
        raise AssertionError


def child(kind: str, name: str, **labels: str) -> dict[str, Any]:
    version = {"Pod": "v1", "Job": "batch/v1"}.get(kind, "sparkoperator.k8s.io/v1beta2")
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": labels}
    metadata["creationTimestamp"] = "2026-11-20T09:59:50Z"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "status": {"phase": "Running"}}


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("kind", sorted(SPECS))
def test_a_pod_without_its_job_is_stopped(kind: str, *, suspend: bool) -> None:
    cache = Cache()
    mine = {UID_LABEL: "owner"}
    cache.store(child("Pod", "of-a-deleted-job", **mine, **{"batch.kubernetes.io/job-name": "gone"}))
    cache.store(child("Pod", "of-a-deleted-application", **mine, **{"sparkoperator.k8s.io/app-name": "gone"}))
    cache.store(child("Job", "there", **mine))
    cache.store(child("Pod", "of-a-job", **mine, **{"batch.kubernetes.io/job-name": "there"}))
    cache.store(child("SparkApplication", "application", **mine))
    cache.store(child("Pod", "of-an-application", **mine, **{"sparkoperator.k8s.io/app-name": "application"}))
    observer = Observer(cache, Nothing(), PodLogs(Nothing(), start=lambda _: None))
    metadata = {"name": "o", "namespace": "n", "uid": "owner", "resourceVersion": "1", "generation": 1}
    metadata["creationTimestamp"] = "2026-11-20T09:00:00Z"
    body = {"kind": kind, "metadata": metadata, "spec": SPECS[kind] | {"suspend": suspend}}
    plan = plan_for(body, observer, NOW, OperatorSettings())
    assert {ref.name for ref in plan.stop if ref.kind == "Pod"} == {"of-a-deleted-job", "of-a-deleted-application"}
