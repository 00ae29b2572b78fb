"""Owns what all children of our resources have in common: names, labels, owners, digests, a safe pod, how they stop.

Must not know what any child is for.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from gapless_operator.common.observed import (
    ATTEMPT_LABEL,
    DIGEST_ANNOTATION,
    KIND_LABEL,
    NAME_LABEL,
    ROLE_LABEL,
    UID_LABEL,
)
from gapless_operator.common.plan import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.plan import Manifest

LONGEST_NAME = 52
"""A Job's name with room for what Kubernetes puts behind it: index and a random end, 63 in all."""
_LONGEST_LABEL = 63
_UID_CHARACTERS = 8
NONROOT = 65532
"""User and group of our containers, as the images have them."""


def digest(value: Any) -> str:
    """A short digest of a JSON value that does not depend on the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def child_name(owner: Resource, suffix: str, *, longest: int = LONGEST_NAME) -> str:
    """``<owner>-<first 8 characters of its uid>-<suffix>``; the owner's name is cut where that is too long.

    The uid keeps apart the children of an owner and of one that had the same name before, and objects of other people.
    """
    tail = f"-{owner.metadata.uid[:_UID_CHARACTERS]}-{suffix}"
    return f"{_to_dashes(owner.metadata.name)[: longest - len(tail)].rstrip('-')}{tail}"


def lasting_name(owner: str, suffix: str, *, longest: int = LONGEST_NAME) -> str:
    """``<owner>-<suffix>``, the same for every object called `owner`: for what outlives it.

    Cut to `longest` characters and with a digest of `owner` if that lost anything.
    """
    plain = _to_dashes(owner)
    if plain == owner and len(plain) + 1 + len(suffix) <= longest:
        return f"{plain}-{suffix}"
    mark = hashlib.sha256(owner.encode()).hexdigest()[:8]
    return f"{plain[: longest - len(mark) - len(suffix) - 2].rstrip('-')}-{mark}-{suffix}"


def _to_dashes(name: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", name)


def label_value(name: str) -> str:
    """The value of a label that names an object: `name`, cut to what a label holds, with a digest if it is too long.

    A name that fills the label is cut as well, so that no two names have the same value.
    """
    if len(name) < _LONGEST_LABEL:
        return name
    return f"{name[: _LONGEST_LABEL - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def bears(labels: Mapping[str, str] | None, label: str, name: str) -> bool:
    """Whether a `label` names the object `name`."""
    return (labels or {}).get(label) == label_value(name)


def name_behind(value: str, names: Iterable[str]) -> str | None:
    """Which of `names` a label's value stands for; ``None`` for none of them."""
    return next((name for name in names if label_value(name) == value), None)


def labels_of(owner: Resource, *, role: str, attempt: int | None = None) -> dict[str, str]:
    """The labels by which a child of `owner` is found again."""
    labels = {**_named_labels(owner.KIND, owner.metadata.name, role), UID_LABEL: owner.metadata.uid}
    if attempt is not None:
        labels[ATTEMPT_LABEL] = str(attempt)
    return labels


def owned(  # noqa: PLR0913 -- the parts of an object's head
    owner: Resource,
    manifest: Mapping[str, Any],
    *,
    name: str,
    role: str,
    attempt: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Complete a `manifest` that has no metadata yet: name, labels, owner reference, and the digest of all of it.

    Args:
        owner: whose child it is; the child goes when the owner goes.
        manifest: apiVersion, kind and everything but metadata.
        name: of the child.
        role: what it is for.
        attempt: which attempt of the owner it belongs to.
        labels: more labels.
        annotations: more annotations.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "labels": {**labels_of(owner, role=role, attempt=attempt), **(labels or {})},
        "annotations": dict(annotations or {}),
        "ownerReferences": [owner.owner_reference()],
    }
    return _with_digest(manifest, metadata)


def lasting(  # noqa: PLR0913 -- the parts of an object's head
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
    """Complete the `manifest` of an object that may outlive its owner and belongs to the next one of the same name.

    Args:
        manifest: apiVersion, kind and everything but metadata.
        name: of the object, without the uid of anybody.
        namespace: of the owner.
        kind: of the owner.
        owner_name: name of the owner, whether it exists or not.
        role: what the object is for.
        owner: with whom the object goes; ``None`` for one that stays.
        version: the resourceVersion that was read; another one is a conflict. Empty for none.
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
    """The labels of every child: whose it is by kind and name, and what it is for."""
    return {
        "app.kubernetes.io/managed-by": "gapless-operator",
        "app.kubernetes.io/part-of": "gapless",
        KIND_LABEL: kind,
        NAME_LABEL: label_value(owner_name),
        ROLE_LABEL: role,
    }


def _with_digest(manifest: Mapping[str, Any], metadata: dict[str, Any]) -> Manifest:
    """`manifest` with its `metadata`, to whose annotations the digest of all of it is added."""
    complete = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata, **manifest}
    metadata["annotations"][DIGEST_ANNOTATION] = digest(complete)
    return complete


def digest_of(manifest: Manifest) -> str:
    """The digest that `owned` gave to a manifest."""
    found: str = manifest["metadata"]["annotations"][DIGEST_ANNOTATION]
    return found


def job_ref(job: ObservedJob) -> Ref:
    """The Job, to delete it and its pods."""
    return Ref("batch/v1", "Job", job.meta.name, job.meta.uid)


def all_that_runs(jobs: Iterable[ObservedJob], pods: Iterable[ObservedPod]) -> tuple[Ref, ...]:
    """The Jobs that have not ended, then the pods that have not.

    A pod is named as well as its Job, because the Job may be gone without it (``--cascade=orphan``), and because nobody
    should have to wait for the garbage collector.
    """
    running = [job_ref(job) for job in jobs if not job.ended and not job.meta.deleting]
    living = [Ref("v1", "Pod", pod.meta.name, pod.meta.uid) for pod in pods if not pod.ended and not pod.meta.deleting]
    return (*running, *living)


def container_security() -> dict[str, Any]:
    """What our containers may do: nothing beyond running as a plain user on a root they cannot write."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def pod_security() -> dict[str, Any]:
    """The same for a whole pod; the group makes volumes and mounted Secrets readable."""
    return {
        "runAsNonRoot": True,
        "runAsUser": NONROOT,
        "runAsGroup": NONROOT,
        "fsGroup": NONROOT,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
