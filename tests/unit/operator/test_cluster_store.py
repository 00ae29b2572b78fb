from __future__ import annotations

from typing import Any

import pytest

from gapless_operator.cli.cluster_store import _has_ended


def condition(name: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": status}]}


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        ({"kind": "Pod", "status": {"phase": "Running"}}, False),
        ({"kind": "Pod", "status": {"phase": "Pending"}}, False),
        ({"kind": "Pod", "status": {"phase": "Unknown"}}, False),
        ({"kind": "Pod"}, False),
        ({"kind": "Pod", "status": {"phase": "Failed"}}, True),
        ({"kind": "Job", "status": {}}, False),
        ({"kind": "Job", "status": condition("Complete")}, True),
        ({"kind": "Job", "status": condition("Failed")}, True),
        ({"kind": "Job", "status": condition("Failed", "False")}, False),
        ({"kind": "Job", "status": condition("SuccessCriteriaMet")}, False),
        ({"kind": "Job", "spec": {"suspend": True}}, True),
        ({"kind": "SparkApplication"}, False),
        ({"kind": "SparkApplication", "status": {"applicationState": {"state": "SUBMITTED"}}}, False),
        ({"kind": "SparkApplication", "status": {"applicationState": {"state": "COMPLETED"}}}, True),
        ({"kind": "SparkApplication", "status": {"applicationState": {"state": "SUBMISSION_FAILED"}}}, True),
    ],
)
def test_work_without_a_pod_has_not_ended(*, body: dict[str, Any], ended: bool) -> None:
    """A Job that has just been created has no pod yet, and gets one a moment later."""
    assert _has_ended({"metadata": {"name": "work"}, **body}) is ended
