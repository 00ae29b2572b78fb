"""The selection of the cluster: a KUBECONFIG that works, kind, or our own node. Must not know what it is for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kit.cluster import node
from kit.cluster.access import KIND_NAME, Cluster, Existing, Kind, OwnNode
from kit.cluster.build import KIND, KUBE
from kit.cluster.places import KUBECONFIG_LINK, NODE_NAME
from kit.cluster.shell import run, say, stage, works


def find() -> Cluster | None:
    """Return the running cluster, without starting one."""
    kubeconfig = _user_kubeconfig()
    if kubeconfig is not None:
        return Existing(kubeconfig)
    if _engine_works() and _kind_is_up():
        return Kind(_kind_kubeconfig())
    return OwnNode() if node.answers() else None


def expected_provider() -> str:
    """Return the provider that `bring_up` would use: "existing", "kind" or "node"."""
    if _user_kubeconfig() is not None:
        return "existing"
    return "kind" if _engine_works() else "node"


def bring_up() -> Cluster:
    """Return a running cluster; start one if needed.

    Raises:
        ClusterError: no cluster is running, and none can be started here.
    """
    kubeconfig = _user_kubeconfig()
    cluster: Cluster
    if kubeconfig is not None:
        cluster = Existing(kubeconfig)
    elif _engine_works():
        cluster = _bring_up_kind()
    else:
        node.up()
        cluster = OwnNode()
    KUBECONFIG_LINK.parent.mkdir(parents=True, exist_ok=True)
    if KUBECONFIG_LINK.resolve() != cluster.kubeconfig.resolve():
        KUBECONFIG_LINK.unlink(missing_ok=True)
        KUBECONFIG_LINK.symlink_to(cluster.kubeconfig.absolute())
    return cluster


def take_down() -> None:
    """Stop the cluster that `bring_up` started; the cluster of a KUBECONFIG is not changed."""
    if _user_kubeconfig() is not None:
        say("The cluster of your KUBECONFIG is not changed.")
    if _engine_works() and _kind_is_up():
        run([KIND.build(), "delete", "cluster", f"--name={KIND_NAME}"], what="Deleting the kind cluster")
    node.down()
    KUBECONFIG_LINK.unlink(missing_ok=True)


def _user_kubeconfig() -> Path | None:
    """Return the KUBECONFIG of the environment, if it works and is not one that the kit has written."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        return None
    file = Path(path)
    if not file.exists() or f'"{NODE_NAME}"' in file.read_text() or f"kind-{KIND_NAME}" in file.read_text():
        return None
    kubectl = shutil.which("kubectl") or str(KUBE.build().with_name("kubectl"))
    if works(kubectl, f"--kubeconfig={file}", "get", "--raw=/readyz"):
        return file
    say(f"The cluster of KUBECONFIG={path} does not answer; selecting another one")
    return None


def _engine_works() -> bool:
    return shutil.which("docker") is not None and works("docker", "info")


def _kind_is_up() -> bool:
    return KIND_NAME in run([KIND.build(), "get", "clusters"], what="Listing kind clusters").split()


def _kind_kubeconfig() -> Path:
    return KUBECONFIG_LINK.with_name("kind.kubeconfig")


def _bring_up_kind() -> Cluster:
    file = _kind_kubeconfig()
    file.parent.mkdir(parents=True, exist_ok=True)
    options = [f"--name={KIND_NAME}", f"--kubeconfig={file}"]
    if _kind_is_up():
        run([KIND.build(), "export", "kubeconfig", *options], what="Exporting the kubeconfig of kind")
    else:
        with stage("kind: creating a cluster (1 to 3 minutes)"):
            run([KIND.build(), "create", "cluster", *options, "--wait=180s"], what="Creating a kind cluster")
    return Kind(file)
