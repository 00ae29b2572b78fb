"""What all child objects have in common: names, labels, owner references, digests, security contexts, deletion.

Must not know the purpose of a child.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gapless_operator.common.observed import (
    ATTEMPT_LABEL,
    DIGEST_ANNOTATION,
    KIND_LABEL,
    NAME_LABEL,
    ROLE_LABEL,
    UID_LABEL,
    ObservedJob,
    ObservedPod,
)
from gapless_operator.common.plan import Manifest, Ref

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resource import Resource

MAX_NAME_LENGTH = 52
"""Maximum length of a Job name: Kubernetes appends an index and a random suffix, and the limit is 63."""
_MAX_LABEL_LENGTH = 63
_UID_CHARACTERS = 8
NONROOT = 65532
"""User and group ID in our images."""


def digest(value: Any) -> str:
    """Return a short digest of a JSON value that is independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def child_name(owner: Resource, suffix: str, *, max_length: int = MAX_NAME_LENGTH) -> str:
    """Return ``<owner>-<first 8 characters of its UID>-<suffix>``, with the owner's name truncated if necessary.

    The UID distinguishes the children from those of an earlier owner with the same name, and from other objects.
    """
    tail = f"-{owner.metadata.uid[:_UID_CHARACTERS]}-{suffix}"
    return f"{_to_dashes(owner.metadata.name)[: max_length - len(tail)].rstrip('-')}{tail}"


def stable_name(owner: str, suffix: str, *, max_length: int = MAX_NAME_LENGTH) -> str:
    """Return ``<owner>-<suffix>``, a name that does not depend on the UID, for objects that outlive the owner.

    A name that is too long or contains dots is shortened and gets a digest of `owner`.
    """
    plain = _to_dashes(owner)
    if plain == owner and len(plain) + 1 + len(suffix) <= max_length:
        return f"{plain}-{suffix}"
    owner_digest = hashlib.sha256(owner.encode()).hexdigest()[:8]
    return f"{plain[: max_length - len(owner_digest) - len(suffix) - 2].rstrip('-')}-{owner_digest}-{suffix}"


def _to_dashes(name: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", name)


def label_value(name: str) -> str:
    """Return the label value for an object name. A name that is too long is truncated and gets a digest.

    A name with the maximum length is shortened, too, so that no two names have the same value.
    """
    if len(name) < _MAX_LABEL_LENGTH:
        return name
    return f"{name[: _MAX_LABEL_LENGTH - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def has_label_for(labels: Mapping[str, str] | None, label: str, name: str) -> bool:
    """Return whether `label` refers to the object `name`."""
    return (labels or {}).get(label) == label_value(name)


def find_labeled_name(value: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` whose label value is `value`; ``None`` if there is none."""
    return next((name for name in names if label_value(name) == value), None)


def labels_of(owner: Resource, *, role: str, attempt: int | None = None) -> dict[str, str]:
    """Return the labels of a child of `owner`."""
    labels = {**_named_labels(owner.KIND, owner.metadata.name, role), UID_LABEL: owner.metadata.uid}
    if attempt is not None:
        labels[ATTEMPT_LABEL] = str(attempt)
    return labels


def owned_manifest(  # noqa: PLR0913 -- the parts of an object's head
    owner: Resource,
    manifest: Mapping[str, Any],
    *,
    name: str,
    role: str,
    attempt: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Add the metadata to a `manifest`: name, labels, owner reference, and the digest of the complete manifest.

    Args:
        owner: the owner; Kubernetes deletes the child with it.
        manifest: apiVersion, kind and everything but metadata.
        name: the name of the child.
        role: the purpose of the child.
        attempt: the number of the owner's attempt that the child belongs to.
        labels: additional labels.
        annotations: additional annotations.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "labels": {**labels_of(owner, role=role, attempt=attempt), **(labels or {})},
        "annotations": dict(annotations or {}),
        "ownerReferences": [owner.owner_reference()],
    }
    return _with_digest(manifest, metadata)


def retained_manifest(  # noqa: PLR0913 -- the parts of an object's head
    manifest: Mapping[str, Any],
    *,
    name: str,
    namespace: str,
    kind: str,
    owner_name: str,
    role: str,
    owner: Resource | None,
    version: str = "",
) -> Manifest:
    """Add the metadata to the `manifest` of an object that may outlive its owner, for the next owner of the same name.

    Args:
        manifest: apiVersion, kind and everything but metadata.
        name: the name of the object; it does not contain a UID.
        namespace: the namespace of the owner.
        kind: the kind of the owner.
        owner_name: the name of the owner, which need not exist.
        role: the purpose of the object.
        owner: the owner with which Kubernetes deletes the object; ``None`` to retain it.
        version: the resourceVersion that was read, for conflict detection; empty to skip it.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": _named_labels(kind, owner_name, role),
        "annotations": {},
        **({} if owner is None else {"ownerReferences": [owner.owner_reference()]}),
    }
    complete = _with_digest(manifest, metadata)
    if version:
        metadata["resourceVersion"] = version
    return complete


def _named_labels(kind: str, owner_name: str, role: str) -> dict[str, str]:
    """Return the labels of every child: kind and name of the owner, and role."""
    return {
        "app.kubernetes.io/managed-by": "gapless-operator",
        "app.kubernetes.io/part-of": "gapless",
        KIND_LABEL: kind,
        NAME_LABEL: label_value(owner_name),
        ROLE_LABEL: role,
    }


def _with_digest(manifest: Mapping[str, Any], metadata: dict[str, Any]) -> Manifest:
    """Return `manifest` with `metadata`, and add the digest of the complete manifest to its annotations."""
    complete = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata, **manifest}
    metadata["annotations"][DIGEST_ANNOTATION] = digest(complete)
    return complete


def digest_of(manifest: Manifest) -> str:
    """Return the digest in the annotations of a manifest."""
    return str(manifest["metadata"]["annotations"][DIGEST_ANNOTATION])


def job_ref(job: ObservedJob) -> Ref:
    """Return the reference for deleting a Job and its pods."""
    return Ref("batch/v1", "Job", job.meta.name, job.meta.uid)


def running_children(jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod]) -> tuple[Ref, ...]:
    """Return the Jobs, then the pods, that have not ended and are not being deleted.

    Pods are deleted explicitly, because a Job can be deleted without its pods (``--cascade=orphan``), and because the
    garbage collector may be slow.
    """
    running_jobs = [job_ref(job) for job in jobs if not job.ended and not job.meta.deleting]
    running_pods = [
        Ref("v1", "Pod", pod.meta.name, pod.meta.uid) for pod in pods if not pod.ended and not pod.meta.deleting
    ]
    return (*running_jobs, *running_pods)


def container_security() -> dict[str, Any]:
    """Return the security context of our containers: non-root, no capabilities, read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def pod_security() -> dict[str, Any]:
    """Return the security context of our pods; fsGroup makes volumes and mounted Secrets readable."""
    return {
        "runAsNonRoot": True,
        "runAsUser": NONROOT,
        "runAsGroup": NONROOT,
        "fsGroup": NONROOT,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
