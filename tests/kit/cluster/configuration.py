"""The settings files and the commands of the node's daemons; must not start anything.

Settings differ from Kubernetes' defaults for three reasons: the node has no route out of its network, it may lack the
capability to lower OOM scores, and many tests share two cores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.cluster.packages import find
from kit.cluster.places import (
    NODE_ADDRESS,
    NODE_NAME,
    POD_GATEWAY,
    POD_NETWORK,
    SERVICE_NETWORK,
    Places,
)

SANDBOX_IMAGE = "docker.io/gapless-kit/pause:1"
STORAGE_PROVISIONER = "gapless.dev/node-volumes"

_CONTAINERD = """\
version = 2
root = "{run}/containerd"
state = "{sockets}/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE a score can only be raised; runc fails if it tries to lower one.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{run}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = false
    Root = "{run}/runc"
"""

_COREFILE = """\
.:53 {{
  bind {gateway}
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig {run}/admin.kubeconfig {node}
    pods insecure
    ttl 5
  }}
  cache 5
}}
"""

_STORAGE_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": STORAGE_PROVISIONER,
    "reclaimPolicy": "Delete",
    # As on kind and in most clouds, a claim waits for its first pod.
    "volumeBindingMode": "WaitForFirstConsumer",
}


@dataclass(frozen=True)
class Daemon:
    """One process of the node."""

    name: str
    command: tuple[str, ...]


def containerd_socket(where: Places) -> Path:
    """Return the path of containerd's socket inside the cluster's mounts."""
    return where.sockets / "containerd" / "containerd.sock"


def write_all(where: Places, api_port: int) -> None:
    """Write every settings file into the run folder."""
    run = where.run
    for folder in ("log", "cni", "manifests", "podlogs", "volumes", "kubelet"):
        (run / folder).mkdir(parents=True, exist_ok=True)
    variables = {
        "run": run,
        "sockets": where.sockets,
        "socket": containerd_socket(where),
        "sandbox": SANDBOX_IMAGE,
        "gateway": POD_GATEWAY,
        "node": NODE_NAME,
    }
    (run / "containerd.toml").write_text(_CONTAINERD.format(**variables))
    (run / "Corefile").write_text(_COREFILE.format(**variables))
    (run / "resolv.conf").write_text(
        f"nameserver {POD_GATEWAY}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n"
    )
    _write(run / "cni" / "10-bridge.conflist", _network(run))
    _write(run / "kubelet.yaml", _kubelet(where))
    _write(run / "kube-proxy.yaml", _kube_proxy(run))
    _write(run / "base.yaml", _STORAGE_CLASS)
    (run / "api-port").write_text(str(api_port))


def _write(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n")  # JSON is YAML


def _network(run: Path) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(run / "cni-addresses"),
        "ranges": [[{"subnet": POD_NETWORK, "gateway": POD_GATEWAY}]],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "1.0.0", "name": "gapless", "plugins": [bridge, ports]}


def _kubelet(where: Places) -> dict[str, Any]:
    run = where.run
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{where.control_group}",
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": f"unix://{containerd_socket(where)}",
        "staticPodPath": str(run / "manifests"),
        "podLogsDir": str(run / "podlogs"),
        "resolvConf": str(run / "resolv.conf"),
        "volumePluginDir": str(run / "volume-plugins"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [POD_GATEWAY],
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(run / "pki" / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(run / "pki" / "kubelet.crt"),
        "tlsPrivateKeyFile": str(run / "pki" / "kubelet.key"),
        "failSwapOn": False,
        "makeIPTablesUtilChains": True,
        "hairpinMode": "hairpin-veth",
        # Images come from archives, not from a registry, so a collected image could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "maxPods": 200,
        "oomScoreAdj": 0,
        "syncFrequency": "10s",
    }


def _kube_proxy(run: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(run / "proxy.kubeconfig")},
        "mode": "iptables",
        "oomScoreAdj": 0,
        "hostnameOverride": NODE_NAME,
        "clusterCIDR": POD_NETWORK,
        # These limits are global on the machine; zero leaves them unchanged.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def base_daemons(where: Places, api_port: int) -> list[Daemon]:
    """Return the daemons that the others need: containerd, etcd and the API server."""
    run, programs = where.run, where.programs
    keys = run / "pki"
    etcd = "http://127.0.0.1:2379"
    peer = "http://127.0.0.1:2380"
    return [
        Daemon("containerd", (find("containerd") or "containerd", "--config", f"{run}/containerd.toml")),
        Daemon(
            "etcd",
            (
                f"{programs}/etcd",
                "--name=gapless",
                f"--data-dir={run}/etcd",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=gapless={peer}",
            ),
        ),
        Daemon(
            "kube-apiserver",
            (
                f"{programs}/kube-apiserver",
                f"--etcd-servers={etcd}",
                "--bind-address=0.0.0.0",
                f"--secure-port={api_port}",
                f"--advertise-address={NODE_ADDRESS}",
                f"--service-cluster-ip-range={SERVICE_NETWORK}",
                "--allow-privileged=true",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                f"--client-ca-file={keys}/ca.crt",
                f"--tls-cert-file={keys}/apiserver.crt",
                f"--tls-private-key-file={keys}/apiserver.key",
                f"--kubelet-client-certificate={keys}/admin.crt",
                f"--kubelet-client-key={keys}/admin.key",
                "--kubelet-preferred-address-types=InternalIP",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={keys}/sa.pub",
                f"--service-account-signing-key-file={keys}/sa.key",
                "--profiling=false",
            ),
        ),
    ]


def later_daemons(where: Places, python: str) -> list[Daemon]:
    """Return the daemons that are clients of the API server."""
    run, programs = where.run, where.programs
    keys = run / "pki"
    return [
        Daemon(
            "kube-controller-manager",
            (
                f"{programs}/kube-controller-manager",
                f"--kubeconfig={run}/controllers.kubeconfig",
                "--bind-address=127.0.0.1",
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={keys}/sa.key",
                f"--root-ca-file={keys}/ca.crt",
                f"--cluster-signing-cert-file={keys}/ca.crt",
                f"--cluster-signing-key-file={keys}/ca.key",
                "--cluster-name=gapless",
                "--leader-elect=false",
            ),
        ),
        Daemon(
            "kube-scheduler",
            (
                f"{programs}/kube-scheduler",
                f"--kubeconfig={run}/scheduler.kubeconfig",
                "--bind-address=127.0.0.1",
                "--leader-elect=false",
            ),
        ),
        Daemon(
            "kubelet",
            (
                f"{programs}/kubelet",
                f"--config={run}/kubelet.yaml",
                f"--kubeconfig={run}/kubelet.kubeconfig",
                f"--root-dir={run}/kubelet",
                f"--hostname-override={NODE_NAME}",
                f"--node-ip={NODE_ADDRESS}",
            ),
        ),
        Daemon("kube-proxy", (f"{programs}/kube-proxy", f"--config={run}/kube-proxy.yaml")),
        Daemon("coredns", (f"{programs}/coredns", "-conf", f"{run}/Corefile")),
        Daemon("volumes", (python, "-m", "kit.cluster.volumes")),
    ]
