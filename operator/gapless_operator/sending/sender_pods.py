"""What all pods of the sender image have in common: the Diode's node and network, no rights, no API token.

Must not know what a pod sends, nor what a Resend is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import container_security, pod_security
from gapless_operator.common.refusal import Refusal, refusal_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode, DiodeSpec
    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.settings import Program

GRACE_SECONDS = 10
"""For a sender to save its progress, which takes well under a second; stopping it takes no longer than this."""
DEFAULT_CPU, DEFAULT_MEMORY = "500m", "512Mi"
"""Requests of a sender where the Diode sets none."""


def container(  # noqa: PLR0913 -- the parts of a container
    diode: DiodeSpec,
    program: Program,
    *,
    name: str,
    arguments: Sequence[str],
    mounts: Sequence[dict[str, Any]] = (),
    environment: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return a container of the sender image that runs ``gapless`` with `arguments`."""
    resources = diode.resources
    memory = (resources.memory if resources else None) or DEFAULT_MEMORY
    manifest: dict[str, Any] = {
        "name": name,
        "image": diode.image or program.image,
        "imagePullPolicy": program.pull_policy,
        "command": ["gapless", *arguments],
        "resources": {
            "requests": {"cpu": (resources.cpu if resources else None) or DEFAULT_CPU, "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],  # noqa: S108 -- the container's own
    }
    if environment:
        manifest["env"] = list(environment)
    return manifest


def template_refusal(diode: Diode, program: Program) -> Refusal | None:
    """Return why no pod may have the template that the Diode names; ``None`` if it may, or the Diode names none."""
    name, namespace = diode.spec.pod_template, diode.metadata.namespace
    return refusal_of(lambda: program.pod_templates.check(name, namespace))


def pod_template(diode: Diode, program: Program, *, labels: Mapping[str, str], spec: Mapping[str, Any]) -> Manifest:
    """Return the pod template with what the platform team adds to pods on this Diode.

    Raises:
        KeyError: the Diode names a template that is not listed.
    """
    templates = program.with_template(diode.spec.pod_template).pod_templates
    return templates.applied_to(diode.metadata.namespace, labels, spec)


def pod_spec(
    diode: DiodeSpec,
    program: Program,
    *,
    containers: Sequence[dict[str, Any]],
    init_containers: Sequence[dict[str, Any]] = (),
    volumes: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the spec of a pod on the Diode's node and in its host network.

    NetworkPolicies do not apply to such a pod, and it can reach the node's loopback; therefore it has no capabilities,
    no API token and no writable root.
    """
    manifest: dict[str, Any] = {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": dict(diode.node_selector),
        "securityContext": pod_security(),
        "containers": list(containers),
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}, *volumes],
    }
    if init_containers:
        manifest["initContainers"] = list(init_containers)
    if diode.tolerations:
        manifest["tolerations"] = [toleration.to_dict() for toleration in diode.tolerations]
    if program.priority_class:
        manifest["priorityClassName"] = program.priority_class
    if program.service_account:
        manifest["serviceAccountName"] = program.service_account
    return manifest
