"""Owns what a test can do with a cluster, whichever it is. Must not know how the cluster is brought up.

A cluster has two sides. What listens on the near side is reached by pods at `near_address`: the test's Kafka. The far
side lies behind the one-way link: the receiver listens there at `diode.target`; its Kafka, too, is at `near_address`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from kit.cluster import namespaces, node
from kit.cluster.build import HELM, KIND, KUBE
from kit.cluster.objects import Objects
from kit.cluster.places import DIODE_FAR, DIODE_NIC, NODE_ADDRESS, ClusterError, places
from kit.cluster.shell import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

KIND_NAME = "gapless"


@dataclass(frozen=True)
class DiodeEnds:
    """The one-way link of the cluster."""

    nic: str
    """Interface of the node that leads into it."""
    target: str
    """Address of the receiver behind it."""
    one_way: bool
    """Whether really nothing comes back."""


class Cluster(Objects):
    """A cluster that answers."""

    sort: str
    kubeconfig: Path
    near_address: str
    diode: DiodeEnds

    def near_side(self) -> AbstractContextManager[None]:
        """Put this thread, and the processes it starts, where the cluster's node is."""
        return contextlib.nullcontext()

    def far_side(self) -> AbstractContextManager[None]:
        """Put this thread, and the processes it starts, behind the one-way link."""
        return contextlib.nullcontext()

    def outside(self) -> AbstractContextManager[None]:
        """Put this thread, and what it starts, back into the machine's own network, from which packages are had."""
        return contextlib.nullcontext()

    def load(self, archives: Sequence[Path]) -> None:
        """Give images to the node, as `docker save` writes them."""
        raise NotImplementedError

    def name_again(self, image: str, name: str) -> None:
        """Give an image that the node has another name beside its own, as if it had been loaded under both."""
        raise NotImplementedError

    def kubectl_program(self) -> Path:
        """Return a kubectl; the machine's own when it has one."""
        found = shutil.which("kubectl")
        return Path(found) if found else KUBE.build().with_name("kubectl")

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl and helm find this cluster, also for programs that call them."""
        first = f"{self.kubectl_program().parent}{os.pathsep}{places().programs}{os.pathsep}"
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "PATH": first + os.environ.get("PATH", "")}

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl and return what it printed.

        Raises:
            ClusterError: it failed; with its last words.
        """
        return run(
            [self.kubectl_program(), *arguments],
            what=f"kubectl {shlex.join(arguments)}",
            environment=self.environment(),
            stdin=stdin,
            timeout_seconds=timeout_seconds,
        )

    def helm(self, *arguments: str, timeout_seconds: float = 300.0) -> str:
        """Run helm and return what it printed.

        Raises:
            ClusterError: it failed; with its last words.
        """
        return run(
            [HELM.build(), *arguments],
            what=f"helm {shlex.join(arguments)}",
            environment=self.environment(),
            timeout_seconds=timeout_seconds,
        )


class OwnNode(Cluster):
    """The cluster that `kit.cluster.node` makes."""

    sort = "node"
    near_address = NODE_ADDRESS
    diode = DiodeEnds(DIODE_NIC, DIODE_FAR, one_way=True)

    def __init__(self) -> None:
        self.kubeconfig = places().kubeconfig

    def near_side(self) -> AbstractContextManager[None]:
        """Enter the node's network."""
        return namespaces.inside(self.holder().network)

    def far_side(self) -> AbstractContextManager[None]:
        """Enter the network behind the link."""
        return namespaces.inside(self.holder().far_network)

    def outside(self) -> AbstractContextManager[None]:
        """Enter the network in which this process began."""
        return namespaces.outside()

    def holder(self) -> namespaces.Holder:
        """Return the process that holds the cluster.

        Raises:
            ClusterError: the cluster is down.
        """
        held = node.holder()
        if held is None:
            raise ClusterError("The cluster is not up: run `make cluster`.")
        return held

    def load(self, archives: Sequence[Path]) -> None:
        """Import into containerd."""
        node.load(archives)

    def name_again(self, image: str, name: str) -> None:
        """Tell containerd."""
        node.name_again(image, name)

    def kubectl_program(self) -> Path:
        """Return the kubectl of the cluster's own version."""
        return places().programs / "kubectl"


class Kind(Cluster):
    """A cluster of kind's in the machine's Docker engine."""

    sort = "kind"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.near_address = _gateway_of_kind()
        self.diode = DiodeEnds("eth0", self.near_address, one_way=False)

    def load(self, archives: Sequence[Path]) -> None:
        """Hand over to kind."""
        for archive in archives:
            run([KIND.build(), "load", "image-archive", archive, f"--name={KIND_NAME}"], what=f"Loading {archive.name}")

    def name_again(self, image: str, name: str) -> None:
        """Tell containerd in kind's container."""
        client = ["docker", "exec", f"{KIND_NAME}-control-plane", "ctr", "--namespace=k8s.io", "images"]
        run([*client, "tag", "--force", *node.full_names(image, name)], what=f"Naming {image}")


class Existing(Cluster):
    """A cluster that was there before us; what cannot be known about it comes from the environment."""

    sort = "existing"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.near_address = os.environ.get("GAPLESS_TEST_ADDRESS") or _own_address_towards(kubeconfig)
        self.diode = DiodeEnds(os.environ.get("GAPLESS_TEST_NIC", "eth0"), self.near_address, one_way=False)

    def load(self, archives: Sequence[Path]) -> None:
        """Run GAPLESS_TEST_LOAD with each archive as its last argument, such as "k3s ctr images import"."""
        command = os.environ.get("GAPLESS_TEST_LOAD")
        if not command:
            raise ClusterError(
                "Nobody knows how images get into the cluster of your KUBECONFIG: "
                'set GAPLESS_TEST_LOAD to the command, such as "k3s ctr images import", or unset KUBECONFIG.'
            )
        for archive in archives:
            run([*shlex.split(command), archive], what=f"Loading {archive.name}")

    def name_again(self, image: str, name: str) -> None:
        """Run GAPLESS_TEST_TAG with both names as its last arguments, such as "k3s ctr images tag --force"."""
        command = os.environ.get("GAPLESS_TEST_TAG")
        if not command:
            raise ClusterError(
                "Nobody knows how an image of the cluster of your KUBECONFIG gets a second name: "
                'set GAPLESS_TEST_TAG to the command, such as "k3s ctr images tag --force".'
            )
        run([*shlex.split(command), *node.full_names(image, name)], what=f"Naming {image}")


def _gateway_of_kind() -> str:
    """Address of this machine in the network of kind's containers."""
    form = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
    for gateway in run(["docker", "network", "inspect", "kind", "-f", form], what="Asking Docker").split():
        if ":" not in gateway:
            return gateway
    raise ClusterError("Docker's network of kind has no IPv4 gateway, which the tests need to be reached by pods.")


def _own_address_towards(kubeconfig: Path) -> str:
    """Address of this machine on the way to the cluster's API server."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    server = urlsplit(document["clusters"][0]["cluster"]["server"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server.hostname or "127.0.0.1", server.port or 443))
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        raise ClusterError(
            "Pods cannot reach this machine at the loopback address of your KUBECONFIG: "
            "set GAPLESS_TEST_ADDRESS to an address of this machine that they can reach."
        )
    return address
