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

VALID: dict[str, dict[str, Any]] = {
    "Archive": {
        "kafkaRef": {"name": "k"},
        "storageRef": {"name": "s"},
        "region": "site-a",
        "topics": ["orders"],
    },
    "GapScan": {
        "kafkaRef": {"name": "k"},
        "source": {"gapTopic": {"topic": "gaps"}},
        "resend": {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}},
    },
    "Mirror": {"sourceRef": {"name": "k"}, "targetRef": {"name": "l"}, "topics": ["orders"]},
    "Restore": {"archiveRef": {"name": "a"}, "kafkaRef": {"name": "k"}, "topics": [{"name": "orders"}]},
}


class Nothing:
    """An API server that is not asked."""

    def get(self, *_: Any) -> None:
        raise AssertionError

    def log(self, *_: Any, **__: Any) -> None:
        raise AssertionError


def child(kind: str, name: str, version: str = "v1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": {UID_LABEL: "owner"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "status": {"phase": "Running"}}


def an_object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "o", "namespace": "n", "uid": "owner", "resourceVersion": "1", "generation": 2}
    metadata["creationTimestamp"] = "2026-11-20T09:00:00Z"
    return {"apiVersion": "gapless.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def an_observer(cache: Cache | None = None) -> Observer:
    return Observer(cache or Cache(), Nothing(), PodLogs(Nothing(), start=lambda _: None))


@pytest.mark.parametrize("pattern", ["([", "a{99999999999999999999}", "(" * 500])
@pytest.mark.parametrize("kind", ["Archive", "GapScan", "Mirror", "Resend", "Restore"])
def test_what_runs_for_a_spec_that_cannot_be_read_is_stopped_although_it_cannot_be_suspended(
    kind: str, pattern: str
) -> None:
    cache = Cache()
    cache.store(child("SparkApplication", "application", "sparkoperator.k8s.io/v1beta2"))
    cache.store(child("Job", "job"))
    cache.store(child("Pod", "pod"))
    body = an_object(kind, {"suspend": True, "topicPattern": pattern})
    plan = plan_for(body, an_observer(cache), NOW, OperatorSettings())
    assert [ref.name for ref in plan.stop] == ["application", "job", "pod"]
    assert plan.status is not None
    conditions = {(each["type"], each["status"], each["reason"]) for each in plan.status["conditions"]}
    assert ("Stalled", "True", "BadConfiguration") in conditions
    if kind in {"Archive", "Mirror"}:
        assert ("Progressing", "False", "BadConfiguration") in conditions
    if kind in {"Resend", "Restore"}:
        assert ("Succeeded", "False", "BadConfiguration") in conditions
    messages = {each["message"] for each in plan.status["conditions"] if each["type"] == "Stalled"}
    assert all(message.endswith("Pod pod is being stopped.") for message in messages), messages


@pytest.mark.parametrize("kind", ["Archive", "Mirror"])
def test_a_field_of_a_newer_operator_leaves_no_lag_and_no_progress_behind_after_a_rollback(kind: str) -> None:
    running = {"type": "Progressing", "status": "True", "reason": "Running", "observedGeneration": 1}
    body = an_object(kind, {"fieldOfANewerOperator": 1})
    body["status"] = {
        "conditions": [running | {"lastTransitionTime": "2026-11-20T09:00:00Z"}],
        "lagRecords": 0,
        "lagSeconds": 0.0,
        "records": 7,
    }
    plan = plan_for(body, an_observer(), NOW, OperatorSettings())
    assert plan.status is not None
    assert plan.status.keys() == {"conditions", "observedGeneration", "records"}
    conditions = {each["type"]: each["status"] for each in plan.status["conditions"]}
    assert conditions == {"Progressing": "False", "Ready": "False", "Reconciling": "False", "Stalled": "True"}


@pytest.mark.parametrize("spec", [{}, {"fieldOfANewerOperator": 1}])
@pytest.mark.parametrize("kind", ["Archive", "GapScan", "Mirror", "Restore"])
def test_a_deleted_object_stops_also_what_has_no_pod_yet(kind: str, spec: dict[str, Any]) -> None:
    body = an_object(kind, VALID[kind] | spec)
    body["metadata"]["deletionTimestamp"] = "2026-11-20T09:59:00Z"
    cache = Cache()
    cache.store(child("SparkApplication", "application", "sparkoperator.k8s.io/v1beta2"))
    plan = plan_for(body, an_observer(cache), NOW, OperatorSettings())
    assert [ref.name for ref in plan.stop] == ["application"]
    assert (plan.status is None) == (not spec), "an invalid one also says why"
