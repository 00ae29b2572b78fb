"""The pods of all engines: settings, secrets, volumes, a read-only root file system.

Must not know the engine, nor the work. All read-only files are in one projected volume, because a volume cannot be
mounted into a read-only one. Each claim has one volume, because a pod with two volumes of the same claim may never
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gapless_operator.common.access import SecretFile, secret_sources
from gapless_operator.common.children import container_security, pod_security

CONFIGURATION_FOLDER = "/etc/gapless"
SECRETS_FOLDER = f"{CONFIGURATION_FOLDER}/secrets"
_MODE = 0o440
_OVERHEAD_RATIO, _MIN_OVERHEAD_MIB = 0.4, 768
"""Memory of a pod with Spark in local mode besides the heap: code, classes and buffers of Java need about 400 MiB, the
Python driver 170 MiB, and one Python worker that reads Kafka 310 MiB, part of which fits into the unused heap. Results
in the driver need more, in proportion to the heap."""
_WORKER_MIB = 320
"""Memory of each additional core, which has a separate Python worker with a Kafka client queue."""


class Folder(NamedTuple):
    """A folder of a claim that is mounted in a pod."""

    volume: str
    """Name of the volume in the pod; folders of one claim share it."""
    mounted_at: str
    claim: str
    path: str
    """Path in the volume; empty for its root."""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Files and folders of a pod."""

    sources: tuple[dict[str, Any], ...] = ()
    """Sources of the projected volume besides Secrets."""
    secrets: tuple[SecretFile, ...] = ()
    folders: tuple[Folder, ...] = ()


def _volumes(content: Content) -> list[dict[str, Any]]:
    sources = [*content.sources, *secret_sources(content.secrets)]
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if sources:
        volumes.append({"name": "configuration", "projected": {"defaultMode": _MODE, "sources": sources}})
    for folder in {folder.volume: folder for folder in content.folders}.values():
        claim = {"claimName": folder.claim} | ({"readOnly": True} if folder.read_only else {})
        volumes.append({"name": folder.volume, "persistentVolumeClaim": claim})
    return volumes


def _mounts(content: Content) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 -- the container's own
    if content.sources or content.secrets:
        mounts.append({"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True})
    for folder in content.folders:
        mount: dict[str, Any] = {"name": folder.volume, "mountPath": folder.mounted_at}
        mount |= {"subPath": folder.path} if folder.path else {}
        mounts.append(mount | ({"readOnly": True} if folder.read_only else {}))
    return mounts


def container(content: Content, *, name: str) -> dict[str, Any]:
    """Return a container without image and command."""
    return {
        "name": name,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(content),
        # Java and Python need a home directory, and Spark writes to the working directory; the root is read-only.
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108
        "workingDir": "/tmp",  # noqa: S108
    }


def pod(content: Content, containers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a pod spec that complies with the pod security level "restricted"."""
    return {
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": containers,
        "volumes": _volumes(content),
    }


def mebibytes(memory: str) -> int:
    """Parse an amount such as 512Mi or 2Gi."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)


def millicores(cpu: str) -> int:
    """Parse an amount such as 500m or 2."""
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


def pod_memory(heap: str, *, cores: int) -> str:
    """Return the memory of a pod with Spark in local mode and a Java heap of `heap`."""
    size = mebibytes(heap)
    return f"{size + max(_MIN_OVERHEAD_MIB, int(size * _OVERHEAD_RATIO)) + _WORKER_MIB * (cores - 1)}Mi"


def java_memory(heap: str) -> str:
    """Return `heap` in the notation of Java and Spark."""
    return f"{mebibytes(heap)}m"
