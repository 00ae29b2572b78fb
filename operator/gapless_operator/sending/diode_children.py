"""The manifests of a Diode's children: the volume for checkpoints and the budget, and the preflight Job.

Must not know when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import (
    child_name,
    label_value,
    labels_of,
    owned_manifest,
    retained_manifest,
    stable_name,
)
from gapless_operator.common.observed import DIODE_LABEL, ObservedClaim
from gapless_operator.sending.sender_pods import container, pod_spec, pod_template

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program

PREFLIGHT, STATE = "preflight", "state"
"""Roles of the children."""
_MAX_PREFLIGHT_SECONDS = 120
"""After this, a pod on a lost node is given up, so that the next check can run on another node."""


def state_claim_name(diode_name: str) -> str:
    """Return the name of the volume claim of a Diode."""
    return stable_name(diode_name, STATE)


def preflight_name(diode: Diode) -> str:
    """Return the name of the preflight Job of this generation of the Diode."""
    return child_name(diode, f"{PREFLIGHT}-{diode.metadata.generation}")


def state_claim(diode: Diode, existing: ObservedClaim | None) -> Manifest | None:
    """Return the volume claim to apply; ``None`` when it is up to date.

    One node uses it, so ReadWriteOnce is enough for all pods on the Diode. The spec of an existing claim is immutable;
    only its owner, with which it is deleted, can change.
    """
    owner = diode if diode.spec.deletion_policy == "Delete" else None
    state = diode.spec.state
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": state.size}}}
    if state.storage_class_name is not None:
        spec["storageClassName"] = state.storage_class_name
    if existing is not None:
        if existing.meta.owner_uid == (owner.metadata.uid if owner is not None else "") or existing.meta.deleting:
            return None
        names = ("accessModes", "resources", "storageClassName")
        spec = {name: existing.spec[name] for name in names if name in existing.spec}
    return retained_manifest(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec},
        name=state_claim_name(diode.metadata.name),
        namespace=diode.metadata.namespace,
        kind=diode.KIND,
        owner_name=diode.metadata.name,
        role=STATE,
        owner=owner,
    )


def preflight_job(diode: Diode, program: Program) -> Manifest:
    """Return the Job that runs ``gapless link preflight`` where the senders would run."""
    spec, labels = diode.spec, {DIODE_LABEL: label_value(diode.metadata.name)}
    arguments = [
        "link",
        "preflight",
        f"--nic={spec.nic}",
        f"--target={spec.target.host}",
        f"--port={spec.target.port}",
        f"--payload-size={spec.payload_size}",
    ]
    if spec.source_address is not None:
        arguments.append(f"--source-address={spec.source_address}")
    if spec.require_static_neighbour:
        arguments.append("--require-neighbour")
    preflight = container(spec, program, name=PREFLIGHT, arguments=arguments)
    preflight["resources"] = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    template = pod_template(
        diode,
        program,
        labels={**labels_of(diode, role=PREFLIGHT), **labels},
        spec={**pod_spec(spec, program, containers=[preflight]), "terminationGracePeriodSeconds": 5},
    )
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _MAX_PREFLIGHT_SECONDS,
            "template": template,
        },
    }
    return owned_manifest(diode, job, name=preflight_name(diode), role=PREFLIGHT, labels=labels)
