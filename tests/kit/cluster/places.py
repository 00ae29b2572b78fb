"""The cluster's paths, names and addresses; must not start or change anything."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kit.machine.maven import cache_folder

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent.parent
GO_MODULES = HERE / "go"

KUBECONFIG_LINK = CHECKOUT / "build" / "cluster" / "kubeconfig"
"""The link to the kubeconfig of the cluster that `up` selected."""

NODE_NAME = "gapless-node"
NODE_ADDRESS = "10.243.0.1"
POD_GATEWAY = "10.244.0.1"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"

DIODE_NIC = "diode0"
DIODE_NEAR = "192.0.2.1"
DIODE_FAR = "192.0.2.2"
"""Both ends of the one-way link, from the addresses reserved for documentation (RFC 5737)."""
RETURN_NEAR = "10.243.1.1"
RETURN_FAR = "10.243.1.2"
"""The link on which the receiver on the far side reaches its Kafka; in production that is a separate network."""


class ClusterError(RuntimeError):
    """An operation on the cluster failed; the message says why and what to do."""


@dataclass(frozen=True)
class Places:
    """The folders of our own cluster."""

    cache: Path

    @property
    def programs(self) -> Path:
        """Programs that are built once: kube with its links, coredns, helm, kind, spark-operator."""
        return self.cache / "cluster" / "bin"

    @property
    def images(self) -> Path:
        """Archives of images that do not depend on the version of the product."""
        return self.cache / "cluster" / "images"

    @property
    def engine(self) -> Path:
        """The private Docker engine and its layers."""
        return self.cache / "cluster" / "docker"

    @property
    def run(self) -> Path:
        """Files of the running cluster: keys, settings, logs, etcd's data, volumes."""
        return self.cache / "cluster" / "run"

    @property
    def sockets(self) -> Path:
        """A short path, because the path of a Unix socket is limited to 107 bytes; a tmpfs in the cluster's mounts.

        It depends on the cache folder: removing a shared folder would also unmount it in another cluster's mounts.
        """
        return Path("/run") / self.control_group

    @property
    def lock(self) -> Path:
        """Locked while the cluster is started or stopped."""
        return self.cache / "cluster" / "lock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.run / "admin.kubeconfig"

    @property
    def control_group(self) -> str:
        """Name of the control group, unique for each cache folder."""
        return "gapless-" + hashlib.sha256(str(self.cache).encode()).hexdigest()[:8]


def places() -> Places:
    """Return the folders below the cache folder."""
    return Places(cache_folder().absolute())
