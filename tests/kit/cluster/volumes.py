"""The node's storage provisioner: a folder and a local PersistentVolume for every claim of a scheduled pod.

Must not bind claims or mount volumes; Kubernetes does. The controller manager's own provisioner creates hostPath
volumes, which ignore fsGroup; the kubelet applies it to local volumes, as to those of real storage drivers.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from kit.cluster.configuration import STORAGE_PROVISIONER
from kit.cluster.places import NODE_NAME, places

_PAUSE_SECONDS = 0.4
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_SAFE_NAME = re.compile(r"^gapless-[0-9a-f-]{36}$")

_Object = dict[str, Any]


def needs_volume(claim: _Object) -> bool:
    """Whether this provisioner must create the claim's volume: its pod is scheduled, and it has no volume yet."""
    annotations = claim["metadata"].get("annotations", {})
    return (
        annotations.get(_PROVISIONER) == STORAGE_PROVISIONER
        and annotations.get(_SELECTED_NODE) == NODE_NAME
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
    )


def volume_for(claim: _Object, folder: Path) -> _Object:
    """Return the volume of a claim, bound to it by name and UID."""
    metadata, spec = claim["metadata"], claim["spec"]
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {_PROVISIONED_BY: STORAGE_PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": "Filesystem",
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(folder / volume_name(claim))},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    }


def volume_name(claim: _Object) -> str:
    """Return the name of a claim's volume and folder, which stays the same after a restart."""
    return f"gapless-{claim['metadata']['uid']}"


def _full_name(claim: _Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def is_released(volume: _Object) -> bool:
    """Whether this provisioner created the volume and its claim has been deleted."""
    provisioner = volume["metadata"].get("annotations", {}).get(_PROVISIONED_BY)
    return bool(provisioner == STORAGE_PROVISIONER and volume.get("status", {}).get("phase") == "Released")


class _Api:
    """A minimal client without dependencies."""

    def __init__(self, keys: Path, port: int) -> None:
        self._context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        self._context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        self._port = port
        self._connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: _Object | None = None) -> _Object:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=30)
        try:
            self._connection.request(
                method,
                path,
                body=json.dumps(body) if body else None,
                headers={"Content-Type": "application/json"},
            )
            response = self._connection.getresponse()
            answer: _Object = json.loads(response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            raise
        # 404 and 409 are not errors: another client was faster, and the next round sees the result.
        if response.status >= 400 and response.status not in (404, 409):
            raise OSError(f"{method} {path}: {answer.get('message')}")
        return answer


def turn(api: _Api, folder: Path) -> None:
    """Create volumes for claims and remove released ones."""
    for claim in api.request("GET", "/api/v1/persistentvolumeclaims")["items"]:
        if needs_volume(claim):
            # Like a new disk, it belongs to root: a pod without root needs fsGroup.
            (folder / volume_name(claim)).mkdir(mode=0o755, exist_ok=True)
            api.request("POST", "/api/v1/persistentvolumes", volume_for(claim, folder))
            print(f"created {volume_name(claim)} for {_full_name(claim)}", flush=True)
    for volume in api.request("GET", "/api/v1/persistentvolumes")["items"]:
        name = volume["metadata"]["name"]
        if is_released(volume) and _SAFE_NAME.match(name):
            shutil.rmtree(folder / name, ignore_errors=True)
            api.request("DELETE", f"/api/v1/persistentvolumes/{name}")
            print(f"removed {name}", flush=True)


def main() -> None:
    """Run forever; the node restarts this process if it ends."""
    where = places()
    api = _Api(where.run / "pki", int((where.run / "api-port").read_text()))
    while True:
        try:
            turn(api, where.run / "volumes")
        except (OSError, http.client.HTTPException) as error:
            print(f"retrying: {error}", file=sys.stderr, flush=True)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
