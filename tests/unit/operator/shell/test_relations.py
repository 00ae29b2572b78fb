"""A resource has something that runs as long as a pod has not ended, or a child may start one."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_operator.common.observed import UID_LABEL
from gapless_operator.shell.cache.relations import has_running
from gapless_operator.shell.cache.store import Cache, Key

RESEND = Key("Resend", "n", "r")


def child(kind: str, api_version: str, **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": "child",
        "namespace": "n",
        "uid": "child",
        "resourceVersion": "2",
        "labels": {UID_LABEL: "resend"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def conditions(*types: str) -> dict[str, Any]:
    return {"conditions": [{"type": each, "status": "True"} for each in types]}


@pytest.mark.parametrize(
    ("children", "runs"),
    [
        ([], False),
        ([child("Pod", "v1", status={"phase": "Pending"})], True),
        ([child("Pod", "v1", status={"phase": "Running"})], True),
        ([child("Pod", "v1", status={"phase": "Succeeded"})], False),
        ([child("Job", "batch/v1", status={})], True),
        ([child("Job", "batch/v1", status=conditions("Failed"))], False),
        ([child("Job", "batch/v1", status=conditions("Complete"))], False),
        ([child("Job", "batch/v1", status=conditions("Complete")), child("Pod", "v1", status={})], True),
        ([child("SparkApplication", "sparkoperator.k8s.io/v1beta2", status={})], True),
        (
            [
                child(
                    "SparkApplication",
                    "sparkoperator.k8s.io/v1beta2",
                    status={"applicationState": {"state": "COMPLETED"}},
                )
            ],
            False,
        ),
        ([child("ConfigMap", "v1")], False),
    ],
)
def test_what_runs_is_seen_in_the_children(children: list[dict[str, Any]], *, runs: bool) -> None:
    cache = Cache()
    metadata = {"name": "r", "namespace": "n", "uid": "resend", "resourceVersion": "1"}
    cache.store({"apiVersion": "gapless.dev/v1alpha1", "kind": "Resend", "metadata": metadata})
    for each in children:
        cache.store(each)
    assert has_running(RESEND, cache) is runs


def test_a_deleted_resource_has_nothing() -> None:
    cache = Cache()
    cache.store(child("Pod", "v1", status={"phase": "Running"}))
    assert not has_running(RESEND, cache)
