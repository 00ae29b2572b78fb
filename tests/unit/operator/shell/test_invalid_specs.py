"""An invalid object does not run, whether its spec was edited or a newer operator refuses it."""

from __future__ import annotations

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


class Nothing:
    """An API server that is not asked."""

    def get(self, *_: Any) -> None:
        raise AssertionError

    def log(self, *_: Any, **__: Any) -> None:
        raise AssertionError


def child(kind: str, name: str, version: str = "v1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": {UID_LABEL: "owner"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "status": {"phase": "Running"}}


@pytest.mark.parametrize("pattern", ["([", "a{99999999999999999999}", "(" * 500])
@pytest.mark.parametrize("kind", ["Archive", "GapScan", "Mirror", "Resend", "Restore"])
def test_what_runs_for_a_spec_that_cannot_be_read_is_stopped_although_it_cannot_be_suspended(
    kind: str, pattern: str
) -> None:
    cache = Cache()
    cache.store(child("SparkApplication", "application", "sparkoperator.k8s.io/v1beta2"))
    cache.store(child("Job", "job"))
    cache.store(child("Pod", "pod"))
    observer = Observer(cache, Nothing(), PodLogs(Nothing(), start=lambda _: None))
    metadata = {"name": "o", "namespace": "n", "uid": "owner", "resourceVersion": "1", "generation": 2}
    metadata["creationTimestamp"] = "2026-11-20T09:00:00Z"
    body = {"kind": kind, "metadata": metadata, "spec": {"suspend": True, "topicPattern": pattern}}
    plan = plan_for(body, observer, NOW, OperatorSettings())
    assert [ref.name for ref in plan.stop] == ["application", "job", "pod"]
    assert plan.status is not None
    conditions = {(each["type"], each["status"], each["reason"]) for each in plan.status["conditions"]}
    assert ("Stalled", "True", "BadConfiguration") in conditions
    if kind in {"Archive", "Mirror"}:
        assert ("Progressing", "False", "BadConfiguration") in conditions
