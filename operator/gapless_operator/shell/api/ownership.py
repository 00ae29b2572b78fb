"""The check that an existing object with the name of our child is that child; must not know what it is for.

The operator writes by server-side apply, which would overwrite any object with the name. So the labels of an existing
object are compared first; only the operator sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless_operator.common.observed import KIND_LABEL, NAME_LABEL, ROLE_LABEL, UID_LABEL
from gapless_operator.shell.api.errors import RefusedError

if TYPE_CHECKING:
    from gapless_operator.common.plan import Manifest

_MANAGER_LABEL = "app.kubernetes.io/managed-by"
_IDENTIFYING = (KIND_LABEL, NAME_LABEL, UID_LABEL, ROLE_LABEL)


def check_ours(existing: Mapping[str, Any], manifest: Manifest) -> None:
    """Check that an existing object is the one that a manifest describes.

    Raises:
        RefusedError: it belongs to another owner, which the message names.
    """
    labels, ours = existing["metadata"].get("labels") or {}, manifest["metadata"].get("labels") or {}
    # An object that outlives its owner has no label with a uid.
    if all(labels.get(label) == ours.get(label) for label in _IDENTIFYING if label in ours or label != UID_LABEL):
        return
    metadata = manifest["metadata"]
    name, owner = f"{metadata['namespace']}/{metadata['name']}", f"{ours[KIND_LABEL]} {ours[NAME_LABEL]}"
    raise RefusedError(
        f"The {manifest['kind']} {name} exists and belongs to {_owner(existing)}, not to this {owner}; it was not "
        f"changed. Delete or rename it, so that Gapless can create its own."
    )


def _owner(body: Mapping[str, Any]) -> str:
    """Describe the owner of an object by its labels, owner references or managed fields."""
    metadata = body["metadata"]
    labels, references = metadata.get("labels") or {}, metadata.get("ownerReferences") or ()
    if KIND_LABEL in labels and NAME_LABEL in labels:
        uid = f" (uid {labels[UID_LABEL]})" if labels.get(UID_LABEL) else ""
        return f"the {labels[KIND_LABEL]} {labels[NAME_LABEL]}{uid}"
    for reference in sorted(references, key=lambda reference: not reference.get("controller")):
        return f"the {reference.get('kind')} {reference.get('name')}"
    if labels.get(_MANAGER_LABEL):
        return str(labels[_MANAGER_LABEL])
    managers = [entry["manager"] for entry in metadata.get("managedFields") or () if entry.get("manager")]
    return f"the field manager {managers[0]}" if managers else "another client"
