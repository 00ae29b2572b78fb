"""Owns the children of a Diode: the volume for checkpoints and the shared budget, and the Job that checks the node.

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
from gapless_operator.common.observed import DIODE_LABEL
from gapless_operator.sending.sender_pods import container, pod_spec

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_operator.common.observed import ObservedClaim
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program

PREFLIGHT, STATE = "preflight", "state"
"""Roles of the children."""
_MOST_PREFLIGHT_SECONDS = 120
"""For a pod on a node that went away to be given up, so that the next look finds where the link is now."""


def state_claim_name(diode_name: str) -> str:
    """Name of the volume claim of the Diode."""
    return stable_name(diode_name, STATE)


def preflight_name(diode: Diode) -> str:
    """Name of the preflight Job of this generation of the Diode."""
    return child_name(diode, f"{PREFLIGHT}-{diode.metadata.generation}")


def state_claim(diode: Diode, there: ObservedClaim | None) -> Manifest | None:
    """The volume claim, or ``None`` when it is as it should be.

    One node uses it, so ReadWriteOnce is enough for all pods on the Diode. What it requests cannot be changed any more
    when it is there; whether it goes when the Diode goes can.
    """
    owner = diode if diode.spec.deletion_policy == "Delete" else None
    state = diode.spec.state
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": state.size}}}
    if state.storage_class_name is not None:
        spec["storageClassName"] = state.storage_class_name
    if there is not None:
        if there.meta.owner_uid == (owner.metadata.uid if owner is not None else "") or there.meta.deleting:
            return None
        spec = {
            name: there.spec[name] for name in ("accessModes", "resources", "storageClassName") if name in there.spec
        }
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
    """The Job that runs ``gapless link preflight`` where the senders would run."""
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
    look = container(spec, program, name=PREFLIGHT, arguments=arguments)
    look["resources"] = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    template = {
        "metadata": {"labels": {**labels_of(diode, role=PREFLIGHT), **labels}},
        "spec": {**pod_spec(spec, program, containers=[look]), "terminationGracePeriodSeconds": 5},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _MOST_PREFLIGHT_SECONDS,
            "template": template,
        },
    }
    return owned_manifest(diode, job, name=preflight_name(diode), role=PREFLIGHT, labels=labels)
