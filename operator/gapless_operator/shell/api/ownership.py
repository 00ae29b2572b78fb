"""Owns whether an object that bears the name of a child of ours is that child; must not know what it is for.

The operator writes by server-side apply, which takes over whatever bears the name. So every object is compared first
with what is there, by the labels that only the operator gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.observed import KIND_LABEL, NAME_LABEL, ROLE_LABEL, UID_LABEL
from gapless_operator.shell.api.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_operator.common.plan import Manifest

_MANAGER_LABEL = "app.kubernetes.io/managed-by"
_IDENTIFYING = (KIND_LABEL, NAME_LABEL, UID_LABEL, ROLE_LABEL)


def check_ours(there: Mapping[str, Any], manifest: Manifest) -> None:
    """Make sure that the object `there` is the one that `manifest` describes.

    Raises:
        RefusedError: it is somebody else's; the message names its owner.
    """
    labels, ours = there["metadata"].get("labels") or {}, manifest["metadata"].get("labels") or {}
    # What outlives its owner says nothing of a uid.
    if all(labels.get(label) == ours.get(label) for label in _IDENTIFYING if label in ours or label != UID_LABEL):
        return
    metadata = manifest["metadata"]
    owner = f"{manifest['metadata']['labels'][KIND_LABEL]} {metadata['labels'][NAME_LABEL]}"
    raise RefusedError(
        f"The {manifest['kind']} {metadata['namespace']}/{metadata['name']} exists and belongs to {_owner(there)}, not "
        f"to this {owner}; it was left as it is: delete or rename it, so that Gapless can create its own."
    )


def _owner(body: Mapping[str, Any]) -> str:
    """Whose object it is, as far as it says so."""
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
