"""Owns what all pods of the sender image have in common: the Diode's node and network, no rights, no API token.

Must not know what a pod sends, nor what a Resend is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.common.children import container_security, pod_security

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.v1alpha1.diode import DiodeSpec
    from gapless_operator.common.settings import Program

GRACE_SECONDS = 10
"""For a sender to save its progress; it needs well under a second, and whoever stops it waits no longer than this."""


DEFAULT_CPU, DEFAULT_MEMORY = "500m", "512Mi"
"""What a sender is guaranteed where the Diode says nothing."""


def container(  # noqa: PLR0913 -- the parts of a container
    diode: DiodeSpec,
    program: Program,
    *,
    name: str,
    arguments: Sequence[str],
    mounts: Sequence[dict[str, Any]] = (),
    environment: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A container of the sender image that runs ``gapless`` with `arguments`."""
    given = diode.resources
    memory = (given.memory if given else None) or DEFAULT_MEMORY
    made: dict[str, Any] = {
        "name": name,
        "image": diode.image or program.image,
        "imagePullPolicy": program.pull_policy,
        "command": ["gapless", *arguments],
        "resources": {
            "requests": {"cpu": (given.cpu if given else None) or DEFAULT_CPU, "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],  # noqa: S108 -- the container's own
    }
    if environment:
        made["env"] = list(environment)
    return made


def pod_spec(
    diode: DiodeSpec,
    program: Program,
    *,
    containers: Sequence[dict[str, Any]],
    init_containers: Sequence[dict[str, Any]] = (),
    volumes: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A pod on the Diode's node and in its network.

    NetworkPolicies do not reach such a pod and the node's loopback is open to it; therefore it has nothing else: no
    capabilities, no API token, no writable root.
    """
    made: dict[str, Any] = {
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
        made["initContainers"] = list(init_containers)
    if diode.tolerations:
        made["tolerations"] = [toleration.to_dict() for toleration in diode.tolerations]
    if program.priority_class:
        made["priorityClassName"] = program.priority_class
    if program.service_account:
        made["serviceAccountName"] = program.service_account
    return made
