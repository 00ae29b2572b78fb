"""What a support bundle contains: one archive that describes an installation to a person who may not see it.

It contains objects, events, logs and versions. It never reads a Secret or a ConfigMap; values of environment variables,
bundles in specs, and what kubectl has noted of them are left out.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gapless_operator.cli.cluster_page import line_of, page
from gapless_operator.shell.api.kinds import EVENT, JOB, POD, SPARK_APPLICATION, STORAGE_LOCATION, Kind

if TYPE_CHECKING:
    from gapless_operator.cli.cluster_store import ClusterStore

_LOG_LINES, _LOG_BYTES = 5_000, 2 << 20
_OPERATORS = Kind("v1", "Pod", "pods", "app.kubernetes.io/name=gapless,app.kubernetes.io/component=operator")
"""The operator's own pods, which are not among those of an object."""
_LEFT_OUT = "(left out)"
_NOTED = "kubectl.kubernetes.io/last-applied-configuration"


class Content(NamedTuple):
    """One file of the archive."""

    name: str
    content: bytes


def write(store: ClusterStore, namespace: str | None, now: datetime, stream: IO[bytes]) -> int:
    """Write the archive (tar, gzip) of one namespace, or of all; return the number of its files.

    Raises:
        ConfigurationError: the user may not read the objects.
        SourceUnreachableError: the API server cannot be reached.
    """
    count = 0
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for content in _contents(store, namespace, now):
            entry = tarfile.TarInfo(f"gapless-support/{content.name}")
            entry.size, entry.mtime, entry.mode = len(content.content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content.content))
            count += 1
    return count


def _contents(store: ClusterStore, namespace: str | None, now: datetime) -> Iterator[Content]:
    versions = {"gapless": metadata.version("gapless-api"), "kubernetes": store.version()}
    yield _json("versions.json", {**versions, "written": now.isoformat()})
    bodies = store.objects(namespace)
    namespaces = {namespace} if namespace is not None else {body["metadata"]["namespace"] for body in bodies}
    lines = [line_of(body) for body in bodies]
    yield Content("status.txt", page(lines, store.suspended(set(namespaces)), now).encode())
    for body in (*bodies, *store.listed(STORAGE_LOCATION, namespace)):
        yield _object(body)
    for body in store.listed(_OPERATORS, namespace):
        yield _object(body)
        yield from _logs(store, body)
    for name in sorted(namespaces):
        for kind in (JOB, POD, SPARK_APPLICATION):
            for body in store.listed(kind, name):
                yield _object(body)
                if kind is POD:
                    yield from _logs(store, body)
        yield _json(f"events/{name}.json", [without_values(body) for body in store.listed(EVENT, name)])


def _logs(store: ClusterStore, pod: dict[str, Any]) -> Iterator[Content]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    spec = pod.get("spec", {})
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        log = store.log(namespace, name, container["name"], tail_lines=_LOG_LINES, max_bytes=_LOG_BYTES)
        yield Content(f"logs/{namespace}/{name}/{container['name']}.log", log.encode())


def _object(body: dict[str, Any]) -> Content:
    found = body["metadata"]
    return _json(f"objects/{found.get('namespace', '')}/{body['kind']}/{found['name']}.json", without_values(body))


def without_values(part: Any) -> Any:
    """Return a part of an object without what may be secret, or is only large."""
    if isinstance(part, list):
        return [without_values(each) for each in part]
    if not isinstance(part, dict):
        return part
    if "name" in part and isinstance(part.get("value"), str):  # an environment variable
        part = {**part, "value": _LEFT_OUT}
    kept = {name: without_values(each) for name, each in part.items() if name not in {"managedFields", _NOTED}}
    if isinstance(kept.get("inline"), str):
        kept["inline"] = _LEFT_OUT
    return kept


def _json(name: str, content: object) -> Content:
    return Content(name, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
