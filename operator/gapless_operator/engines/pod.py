"""Owns what every pod of Spark's work has, whichever engine starts it: settings, secrets, folders, a read-only root.

Must not know which engine that is, nor what the work is. All that is only read is one projected volume, because a
volume cannot be mounted into another one that is read-only. What is written has one volume for each claim, because a
pod with two volumes of one claim may never start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_operator.common.access import secret_sources
from gapless_operator.common.children import container_security, pod_security

if TYPE_CHECKING:
    from gapless_operator.common.access import SecretFile

CONFIGURATION_FOLDER = "/etc/gapless"
SECRETS_FOLDER = f"{CONFIGURATION_FOLDER}/secrets"
_MODE = 0o440
_OVERHEAD, _LEAST_OVERHEAD_MIB = 0.4, 768
"""What a pod with all of Spark in it needs beside its heap: Java's code, classes and buffers some 400 MiB, Python's
driver 170, and one worker that reads Kafka 310, for which the heap leaves room: it holds little. More where there is
more to be found, which the driver holds."""
_WORKER_MIB = 320
"""What each further core needs, because it has a worker of its own, with a queue of Kafka's client."""


class Folder(NamedTuple):
    """A folder of a claim in a pod, which the pod writes unless it is only read."""

    volume: str
    """Its name in the pod; folders of one claim have the same."""
    mounted_at: str
    claim: str
    path: str
    """In the volume; empty for its root."""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is put into a pod."""

    sources: tuple[dict[str, Any], ...] = ()
    """What is read besides Secrets, as sources of a projected volume."""
    secrets: tuple[SecretFile, ...] = ()
    folders: tuple[Folder, ...] = ()


def _volumes(content: Content) -> list[dict[str, Any]]:
    sources = [*content.sources, *secret_sources(content.secrets)]
    found: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if sources:
        found.append({"name": "configuration", "projected": {"defaultMode": _MODE, "sources": sources}})
    for folder in {folder.volume: folder for folder in content.folders}.values():
        claim = {"claimName": folder.claim} | ({"readOnly": True} if folder.read_only else {})
        found.append({"name": folder.volume, "persistentVolumeClaim": claim})
    return found


def _mounts(content: Content) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 -- the container's own
    if content.sources or content.secrets:
        found.append({"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True})
    for folder in content.folders:
        mount: dict[str, Any] = {"name": folder.volume, "mountPath": folder.mounted_at}
        mount |= {"subPath": folder.path} if folder.path else {}
        found.append(mount | ({"readOnly": True} if folder.read_only else {}))
    return found


def container(content: Content, *, name: str) -> dict[str, Any]:
    """What a container has beyond image and command."""
    return {
        "name": name,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(content),
        # Java and Python look for a home of their user, and Spark writes below where it is; the root cannot be written.
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
        "workingDir": "/tmp",  # noqa: S108
    }


def pod(content: Content, containers: list[dict[str, Any]]) -> dict[str, Any]:
    """What a pod has beyond who may start it; fit for the pod security level "restricted"."""
    return {
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": containers,
        "volumes": _volumes(content),
    }


def mebibytes(memory: str) -> int:
    """Read an amount such as 512Mi or 2Gi."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)


def pod_memory(heap: str, *, cores: int) -> str:
    """What a pod needs in which Spark runs in local mode with a Java heap of `heap`."""
    size = mebibytes(heap)
    return f"{size + max(_LEAST_OVERHEAD_MIB, int(size * _OVERHEAD)) + _WORKER_MIB * (cores - 1)}Mi"


def java_memory(heap: str) -> str:
    """The same heap as Java and Spark write it."""
    return f"{mebibytes(heap)}m"
