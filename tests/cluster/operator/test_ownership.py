"""What bears the name of a child and belongs to somebody else is not touched; a session key is only ever ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.integration

ENCRYPTION = {"certificateSecret": {"name": "receiver"}}


def create(place: Any, plural: str, kind: str, name: str, **body: Any) -> None:
    place.api.request(
        "POST",
        f"/api/v1/namespaces/{place.name}/{plural}",
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **body},
    )


def message(place: Any, kind: str, name: str) -> str:
    conditions = place.read(kind, name)["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"] == "Ready"))


def test_a_volume_claim_of_somebody_else_is_not_taken_over(place: Any, operator: Callable[..., Any]) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    create(place, "persistentvolumeclaims", "PersistentVolumeClaim", "north-state", spec=claim)
    operator()
    place.diode()
    place.until("Diode", "north", "Stalled", "True", "WriteRefused")
    assert "persistentvolumeclaims" not in message(place, "Diode", "north")
    assert f"The PersistentVolumeClaim {place.name}/north-state exists and belongs to" in message(
        place, "Diode", "north"
    )
    (found,) = place.objects("/api/v1 persistentvolumeclaims")
    assert found["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert not found["metadata"].get("labels")
    place.api.request("DELETE", f"/api/v1/namespaces/{place.name}/persistentvolumeclaims/north-state")
    place.api.request(
        "PATCH",
        f"/api/v1/namespaces/{place.name}/persistentvolumeclaims/north-state",
        {"metadata": {"finalizers": None}},
        content="application/merge-patch+json",
    )
    place.until("Diode", "north", "Ready", "True", "LinkReady", seconds=60)


def test_a_config_map_of_somebody_else_is_not_taken_over(place: Any, operator: Callable[..., Any]) -> None:
    operator()
    place.diode()
    place.resend(suspend=True)
    place.until("Resend", "again", "Ready", "False", "Suspended")
    uid = place.read("Resend", "again")["metadata"]["uid"]
    name = f"again-{uid[:8]}-send-1"
    create(place, "configmaps", "ConfigMap", name, data={"resend.properties": "mine"})
    place.resend(suspend=False)
    place.until("Resend", "again", "Stalled", "True", "WriteRefused")
    assert f"The ConfigMap {place.name}/{name} exists and belongs to" in message(place, "Resend", "again")
    found = next(m for m in place.objects("/api/v1 configmaps") if m["metadata"]["name"] == name)
    assert found["data"] == {"resend.properties": "mine"}
    assert f"again-{uid[:8]}-send-1" not in place.names("/apis/batch/v1 jobs")
    place.api.request("DELETE", f"/api/v1/namespaces/{place.name}/configmaps/{name}")
    place.until("Resend", "again", "Succeeded", "True", "Sent", seconds=60)


def test_a_session_key_is_new_and_under_a_name_that_nobody_can_take(place: Any, operator: Callable[..., Any]) -> None:
    """A Secret of the name existed was success before: whoever wrote it knew the key."""
    place.behave = lambda pod: (
        None if pod["metadata"]["labels"].get("gapless.dev/role") == "send" else place.as_usual(pod)
    )
    create(place, "secrets", "Secret", "again-key", data={"session-key": "AAAA"})
    operator()
    place.diode(encryption=ENCRYPTION)
    place.resend()
    place.until("Resend", "again", "Ready", "False", "Starting")
    name = place.read("Resend", "again")["status"]["sessionKeySecret"]
    keys = [secret["metadata"]["name"] for secret in place.objects("/api/v1 secrets")]
    assert sorted(keys) == sorted(["again-key", name])
    (job,) = (j for j in place.objects("/apis/batch/v1 jobs") if "send" in j["metadata"]["name"])
    volumes = job["spec"]["template"]["spec"]["volumes"]
    sources = [
        source["secret"]["name"]
        for v in volumes
        for source in v.get("projected", {}).get("sources", ())
        if "secret" in source
    ]
    assert name in sources
    assert "again-key" not in sources


def test_a_quota_that_refuses_the_session_key_is_no_success(place: Any, operator: Callable[..., Any]) -> None:
    hard = {"hard": {"count/secrets": "0"}}
    create(place, "resourcequotas", "ResourceQuota", "few", spec=hard)
    quota = f"/api/v1/namespaces/{place.name}/resourcequotas/few"
    status = {"status": {**hard, "used": {"count/secrets": "0"}}}  # its controller does not run here
    place.api.request("PATCH", f"{quota}/status", status, content="application/merge-patch+json")
    operator()
    place.diode(encryption=ENCRYPTION)
    place.resend()
    place.until("Resend", "again", "Stalled", "True", "WriteRefused")
    assert "quota" in message(place, "Resend", "again")
    assert place.read("Resend", "again")["status"].get("job") is None
    place.api.request("DELETE", quota)
    place.until("Resend", "again", "Succeeded", "True", "Sent", seconds=60)
