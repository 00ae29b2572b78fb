from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.cluster.configuration import STORAGE_PROVISIONER
from kit.cluster.places import NODE_NAME
from kit.cluster.volumes import is_released, needs_volume, turn, volume_for, volume_name

UID = "0b5f8a54-7a5e-4b7e-9d4e-0b9d6f3f8a11"


def claim(**changes: Any) -> dict[str, Any]:
    notes = {
        "volume.kubernetes.io/storage-provisioner": STORAGE_PROVISIONER,
        "volume.kubernetes.io/selected-node": NODE_NAME,
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "standard",
    }
    metadata = {"name": "state", "namespace": "test", "uid": UID, "annotations": notes | changes.pop("notes", {})}
    return {"metadata": metadata | changes.pop("metadata", {}), "spec": spec | changes}


class FakeApi:
    """The API server as far as the loop asks it; remembers what it was told."""

    def __init__(self, claims: list[dict[str, Any]], volumes: list[dict[str, Any]]) -> None:
        self.kept = {"/api/v1/persistentvolumeclaims": claims, "/api/v1/persistentvolumes": volumes}
        self.told: list[tuple[str, str]] = []

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if method == "GET":
            return {"items": list(self.kept[path])}
        self.told.append((method, body["metadata"]["name"] if body else path.rpartition("/")[2]))
        return {}


def test_a_claim_is_served_once_a_pod_was_scheduled() -> None:
    assert needs_volume(claim())
    assert not needs_volume(claim(notes={"volume.kubernetes.io/selected-node": ""}))


@pytest.mark.parametrize(
    "other",
    [
        claim(volumeName="gapless-1"),
        claim(metadata={"deletionTimestamp": "2026-11-20T10:00:00Z"}),
        claim(notes={"volume.kubernetes.io/storage-provisioner": "somebody.else"}),
    ],
    ids=["it has a volume", "it is being deleted", "it asks another provisioner"],
)
def test_a_claim_is_left_alone(other: dict[str, Any]) -> None:
    assert not needs_volume(other)


def test_a_volume_is_local_to_the_node_and_bound_to_its_claim_and_no_other() -> None:
    volume = volume_for(claim(), Path("/volumes"))
    assert volume["spec"]["local"]["path"] == f"/volumes/gapless-{UID}"
    assert volume["spec"]["claimRef"]["uid"] == UID
    assert "hostPath" not in volume["spec"]


def test_a_round_makes_the_folder_and_the_volume_and_removes_what_was_released(tmp_path: Path) -> None:
    gone = volume_for(claim(metadata={"uid": UID.replace("0", "1")}), tmp_path) | {"status": {"phase": "Released"}}
    old = tmp_path / gone["metadata"]["name"]
    old.mkdir()
    (old / "file").write_text("left over")
    api = FakeApi([claim()], [gone])
    turn(api, tmp_path)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == [volume_name(claim())]
    assert api.told == [("POST", volume_name(claim())), ("DELETE", old.name)]


def test_a_volume_of_another_provisioner_is_never_removed(tmp_path: Path) -> None:
    foreign = volume_for(claim(), tmp_path) | {"status": {"phase": "Released"}}
    foreign["metadata"]["annotations"] = {}
    assert not is_released(foreign)
