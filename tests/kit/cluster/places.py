"""Owns where the cluster's files lie and which names and addresses it uses; must not start or change anything."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kit.machine.maven import cache_folder

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent.parent
GO_MODULES = HERE / "go"

KUBECONFIG_LINK = CHECKOUT / "build" / "cluster" / "kubeconfig"
"""Where people find the kubeconfig of the cluster that `up` chose."""

NODE_NAME = "gapless-node"
NODE_ADDRESS = "10.243.0.1"
POD_GATEWAY = "10.244.0.1"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"

DIODE_NIC = "diode0"
DIODE_NEAR = "192.0.2.1"
DIODE_FAR = "192.0.2.2"
"""Both ends of the one-way link; addresses that are reserved for examples, so no site uses them."""
RETURN_NEAR = "10.243.1.1"
RETURN_FAR = "10.243.1.2"
"""The way on which the far side's receiver reaches its Kafka; in the field that is another network altogether."""


class ClusterError(RuntimeError):
    """The cluster cannot do what was asked; one sentence that says why and what to do."""


@dataclass(frozen=True)
class Places:
    """The folders of one cluster of our own."""

    cache: Path

    @property
    def programs(self) -> Path:
        """What is built once: kube with its links, coredns, helm, kind, spark-operator."""
        return self.cache / "cluster" / "bin"

    @property
    def images(self) -> Path:
        """Archives of the images that are the same for every version of the product."""
        return self.cache / "cluster" / "images"

    @property
    def engine(self) -> Path:
        """The throw-away Docker engine and its layers."""
        return self.cache / "cluster" / "docker"

    @property
    def run(self) -> Path:
        """Everything that lives as long as the cluster: keys, settings, logs, etcd's data, volumes."""
        return self.cache / "cluster" / "run"

    @property
    def sockets(self) -> Path:
        """A short path, because the name of a Unix socket may have 107 bytes; a tmpfs in the cluster's own mounts.

        Its own for every cache folder: removing the folder here would unmount it in another cluster's mounts, too.
        """
        return Path("/run") / self.control_group

    @property
    def lock(self) -> Path:
        """Held while the cluster is brought up or taken down."""
        return self.cache / "cluster" / "lock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.run / "admin.kubeconfig"

    @property
    def control_group(self) -> str:
        """Name of the control group, its own for every cache folder."""
        return "gapless-" + hashlib.sha256(str(self.cache).encode()).hexdigest()[:8]


def places() -> Places:
    """Return the folders that GAPLESS_CACHE names."""
    return Places(cache_folder().absolute())
