"""What the cache keeps of an object: a digest in place of a bundle, and no fields that no reconciler reads.

Must not know how the rest is used. A thousand Resends with bundles of 100 KB, and as many ConfigMaps with the same
bundles, would take 200 MB, although a bundle is needed only when it is checked and when it is mounted.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.observed import LEDGER_ROLE, ROLE_LABEL, is_unscheduled, sidecars_of
from gapless_operator.engines.sparkapplication import APPLICATION_LABEL

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_REFERENCE = "sha256:"
_OWN = f"{GROUP}/"
_POD_LABELS = frozenset({"batch.kubernetes.io/job-name", "job-name", "spark-role", APPLICATION_LABEL})
"""Labels of others by which a pod is found. What the platform team adds is not among them."""
_MAX_SHARED_LENGTH = 80
"""Of texts that many objects have: names, times, reasons, digests."""


def reference(text: str) -> str:
    """Return what the cache keeps in place of an inline bundle."""
    return _REFERENCE + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def trim(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trimmed copy of an object; must not be applied twice."""
    kept = {**body, "metadata": _metadata(body["metadata"])}
    trim = _TRIMS.get(str(body.get("kind")))
    shared: dict[str, Any] = _shared(kept if trim is None else trim(kept))
    return shared


def _shared(value: Any) -> Any:
    """Return a copy that shares its names and short texts with all others: half of the memory of parsed JSON."""
    if isinstance(value, dict):
        return {sys.intern(name): _shared(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shared(each) for each in value]
    return sys.intern(value) if type(value) is str and len(value) <= _MAX_SHARED_LENGTH else value


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    annotations = metadata.get("annotations")
    if annotations and _APPLIED in annotations:
        kept["annotations"] = {name: value for name, value in annotations.items() if name != _APPLIED}
    return kept


def _resend(body: dict[str, Any]) -> dict[str, Any]:
    spec = body.get("spec") or {}
    bundle = spec.get("bundle") or {}
    if not isinstance(bundle.get("inline"), str):
        return body
    return {**body, "spec": {**spec, "bundle": {**bundle, "inline": reference(bundle["inline"])}}}


def _config_map(body: dict[str, Any]) -> dict[str, Any]:
    """Keep the content of ledgers, which reconcilers read; of all other ConfigMaps only the metadata."""
    if (body["metadata"].get("labels") or {}).get(ROLE_LABEL) == LEDGER_ROLE:
        return body
    return {name: value for name, value in body.items() if name not in {"data", "binaryData"}}


def _job(body: dict[str, Any]) -> dict[str, Any]:
    spec = {name: value for name, value in (body.get("spec") or {}).items() if name not in {"template", "selector"}}
    return {**body, "spec": spec}


def _pod(body: dict[str, Any]) -> dict[str, Any]:
    """Keep of a pod what says whose it is, where it is, why it waits, and how its containers are and ended."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels = metadata.get("labels") or {}
    names = [{"name": container["name"]} for container in spec.get("containers") or ()]
    beside = [{"name": name, "restartPolicy": "Always"} for name in sorted(sidecars_of(body))]
    of_spec = {"nodeName": spec.get("nodeName", ""), "containers": names}
    of_status = _selected(status, ("phase", "reason", "message", "podIP"))
    unscheduled = [each for each in status.get("conditions") or () if is_unscheduled(each)]
    of_status |= {"conditions": unscheduled} if unscheduled else {}
    for name in ("initContainerStatuses", "containerStatuses"):
        if status.get(name):
            of_status[name] = [_selected(container, ("name", "state", "lastState")) for container in status[name]]
    return {
        **body,
        "metadata": {
            **{name: value for name, value in metadata.items() if name not in {"generateName", "finalizers"}},
            "labels": {name: labels[name] for name in labels if name.startswith(_OWN) or name in _POD_LABELS},
        },
        "spec": of_spec | ({"initContainers": beside} if beside else {}),
        "status": of_status,
    }


def _selected(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value[name] for name in names if value.get(name)}


def _spark_application(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "spec"}


_TRIMS = {
    "ConfigMap": _config_map,
    "Job": _job,
    "Pod": _pod,
    "Resend": _resend,
    "SparkApplication": _spark_application,
}
