"""The relations of children to resources: owner, Diode whose link is used, and whether any of a resource runs.

Must not know what they do.

A label value is shorter than a name can be, so names are looked up with `children.find_labeled_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless_operator.common.children import find_labeled_name
from gapless_operator.common.observed import DIODE_LABEL, KIND_LABEL, NAME_LABEL, ObservedJob, ObservedPod
from gapless_operator.engines.sparkapplication import ObservedSparkApplication
from gapless_operator.shell.api.kinds import DIODE, JOB, OWNERS, POD, SPARK_APPLICATION, Kind
from gapless_operator.shell.cache.store import Cache, Key

_OWNER_KINDS = {kind.name: kind for kind in OWNERS}


def owner_of(child: Mapping[str, Any], cache: Cache) -> Key | None:
    """Return the owner of a child; ``None`` when it does not exist."""
    metadata = child["metadata"]
    labels, namespace = metadata.get("labels") or {}, metadata.get("namespace", "")
    kind = _OWNER_KINDS.get(labels.get(KIND_LABEL, ""))
    if kind is None:
        return None
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("kind") == kind.name:
            exists = cache.get(kind, namespace, str(reference.get("name"))) is not None
            return Key(kind.name, namespace, reference["name"]) if exists else None
    return _find_by_label(kind, namespace, labels.get(NAME_LABEL), cache)


def diode_of(child: Mapping[str, Any], cache: Cache) -> Key | None:
    """Return the Diode whose link a child uses; ``None`` for none, or when it does not exist."""
    metadata = child["metadata"]
    return _find_by_label(DIODE, metadata.get("namespace", ""), (metadata.get("labels") or {}).get(DIODE_LABEL), cache)


def has_running(resource: Key, cache: Cache) -> bool:
    """Return whether a resource has pods that have not ended, or children that may start some.

    Those that are being deleted count: until they are gone, the status says that they run.
    """
    body = cache.get(_OWNER_KINDS[resource.kind], resource.namespace, resource.name)
    if body is None:
        return False
    uid = body["metadata"]["uid"]
    return (
        any(not ObservedPod.of(pod).ended for pod in cache.owned(POD, uid))
        or any(not ObservedJob.of(job).ended for job in cache.owned(JOB, uid))
        or any(not ObservedSparkApplication.of(each).has_ended for each in cache.owned(SPARK_APPLICATION, uid))
    )


def _find_by_label(kind: Kind, namespace: str, value: str | None, cache: Cache) -> Key | None:
    if not value:
        return None
    name = find_labeled_name(value, (body["metadata"]["name"] for body in cache.all(kind, namespace)))
    return None if name is None else Key(kind.name, namespace, name)
