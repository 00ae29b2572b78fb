"""Owns the relations of a child to resources: its owner, and the Diode whose link it uses; must not know what they do.

A label value is shorter than a name can be, so names are looked up with `children.find_labeled_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless_operator.common.children import find_labeled_name
from gapless_operator.common.observed import DIODE_LABEL, KIND_LABEL, NAME_LABEL
from gapless_operator.shell.api.kinds import DIODE, OWNERS, Kind
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


def _find_by_label(kind: Kind, namespace: str, value: str | None, cache: Cache) -> Key | None:
    if not value:
        return None
    name = find_labeled_name(value, (body["metadata"]["name"] for body in cache.all(kind, namespace)))
    return None if name is None else Key(kind.name, namespace, name)
