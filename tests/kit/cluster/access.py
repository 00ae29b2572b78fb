"""The operations on a cluster of any provider. Must not know how the cluster is started.

A cluster has two sides. Pods reach servers on the near side, such as the test's Kafka, at `near_address`. The far side
is behind the one-way link: the receiver listens there at `diode.target`; its Kafka is at `near_address`, too.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shlex
import shutil
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kit.cluster import namespaces, node
from kit.cluster.build import HELM, KIND, KUBE
from kit.cluster.objects import Objects
from kit.cluster.places import DIODE_FAR, DIODE_NIC, NODE_ADDRESS, ClusterError, places
from kit.cluster.reading import Proxy
from kit.cluster.shell import run

KIND_NAME = "gapless"


@dataclass(frozen=True)
class DiodeEnds:
    """The one-way link of the cluster."""

    nic: str
    """The node's interface to the link."""
    target: str
    """Address of the receiver behind it."""
    one_way: bool
    """Whether the link really drops everything in the other direction."""


class Cluster(Objects):
    """A running cluster."""

    provider: str
    kubeconfig: Path
    near_address: str
    diode: DiodeEnds

    def near_side(self) -> AbstractContextManager[None]:
        """Move this thread, and the processes that it starts, into the node's network."""
        return contextlib.nullcontext()

    def far_side(self) -> AbstractContextManager[None]:
        """Move this thread, and the processes that it starts, into the network behind the one-way link."""
        return contextlib.nullcontext()

    def host_network(self) -> AbstractContextManager[None]:
        """Move this thread, and the processes that it starts, back into the machine's network, to download packages."""
        return contextlib.nullcontext()

    def load(self, archives: Sequence[Path]) -> None:
        """Load image archives, as `docker save` writes them, into the node."""
        raise NotImplementedError

    def add_tag(self, image: str, name: str) -> None:
        """Add a name to an image of the node, as if it had been loaded under both."""
        raise NotImplementedError

    def kubectl_program(self) -> Path:
        """Return the path of kubectl: the machine's own, or one that the kit builds."""
        installed = shutil.which("kubectl")
        return Path(installed) if installed else KUBE.build().with_name("kubectl")

    def environment(self) -> dict[str, str]:
        """Return the environment in which kubectl and helm, and programs that call them, use this cluster."""
        first = f"{self.kubectl_program().parent}{os.pathsep}{places().programs}{os.pathsep}"
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "PATH": first + os.environ.get("PATH", "")}

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl and return its output.

        Raises:
            ClusterError: it failed; contains the end of its output.
        """
        return run(
            [self.kubectl_program(), *arguments],
            what=f"kubectl {shlex.join(arguments)}",
            environment=self.environment(),
            stdin=stdin,
            timeout_seconds=timeout_seconds,
        )

    @functools.cached_property
    def _proxy(self) -> Proxy:
        proxy = Proxy(self.kubectl_program(), self.environment())
        atexit.register(proxy.close)
        return proxy

    def fetch(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a GET, or None if there is nothing of that name. Raises ClusterError."""
        return self._proxy.fetch(path)

    def helm(self, *arguments: str, timeout_seconds: float = 300.0) -> str:
        """Run helm and return its output.

        Raises:
            ClusterError: it failed; contains the end of its output.
        """
        return run(
            [HELM.build(), *arguments],
            what=f"helm {shlex.join(arguments)}",
            environment=self.environment(),
            timeout_seconds=timeout_seconds,
        )


class OwnNode(Cluster):
    """The cluster that `kit.cluster.node` starts."""

    provider = "node"
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

    def host_network(self) -> AbstractContextManager[None]:
        """Enter the network in which this process started."""
        return namespaces.original_network()

    def holder(self) -> namespaces.Holder:
        """Return the process that holds the cluster's namespaces. Raises ClusterError when the cluster is down."""
        return node.running_holder()

    def load(self, archives: Sequence[Path]) -> None:
        """Import the archives into containerd."""
        node.load(archives)

    def add_tag(self, image: str, name: str) -> None:
        """Tag the image in containerd."""
        node.add_tag(image, name)

    def kubectl_program(self) -> Path:
        """Return the kubectl of the cluster's version."""
        return places().programs / "kubectl"


class Kind(Cluster):
    """A kind cluster in the machine's Docker engine."""

    provider = "kind"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.near_address = _gateway_of_kind()
        self.diode = DiodeEnds("eth0", self.near_address, one_way=False)

    def load(self, archives: Sequence[Path]) -> None:
        """Load the archives with kind."""
        for archive in archives:
            run([KIND.build(), "load", "image-archive", archive, f"--name={KIND_NAME}"], what=f"Loading {archive.name}")

    def add_tag(self, image: str, name: str) -> None:
        """Tag the image in the containerd of kind's container."""
        client = ["docker", "exec", f"{KIND_NAME}-control-plane", "ctr", "--namespace=k8s.io", "images"]
        run([*client, "tag", "--force", *node.full_names(image, name)], what=f"Naming {image}")


class Existing(Cluster):
    """The cluster of a KUBECONFIG; environment variables supply what the kit cannot find out."""

    provider = "existing"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.near_address = os.environ.get("GAPLESS_TEST_ADDRESS") or _own_address_towards(kubeconfig)
        self.diode = DiodeEnds(os.environ.get("GAPLESS_TEST_NIC", "eth0"), self.near_address, one_way=False)

    def load(self, archives: Sequence[Path]) -> None:
        """Run GAPLESS_TEST_LOAD with each archive as its last argument, such as "k3s ctr images import"."""
        command = os.environ.get("GAPLESS_TEST_LOAD")
        if not command:
            raise ClusterError(
                "GAPLESS_TEST_LOAD is not set: set it to the command that loads an image archive into the cluster of "
                'your KUBECONFIG, such as "k3s ctr images import", or unset KUBECONFIG.'
            )
        for archive in archives:
            run([*shlex.split(command), archive], what=f"Loading {archive.name}")

    def add_tag(self, image: str, name: str) -> None:
        """Run GAPLESS_TEST_TAG with both names as its last arguments, such as "k3s ctr images tag --force"."""
        command = os.environ.get("GAPLESS_TEST_TAG")
        if not command:
            raise ClusterError(
                "GAPLESS_TEST_TAG is not set: set it to the command that tags an image in the cluster of your "
                'KUBECONFIG, such as "k3s ctr images tag --force".'
            )
        run([*shlex.split(command), *node.full_names(image, name)], what=f"Naming {image}")


def _gateway_of_kind() -> str:
    """Return this machine's address in the network of kind's containers."""
    form = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"
    for gateway in run(["docker", "network", "inspect", "kind", "-f", form], what="Asking Docker").split():
        if ":" not in gateway:
            return gateway
    raise ClusterError("The Docker network of kind has no IPv4 gateway: pods could not reach the tests.")


def _own_address_towards(kubeconfig: Path) -> str:
    """Return this machine's source address for connections to the cluster's API server."""
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
