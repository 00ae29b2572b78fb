"""Owns the choice of the cluster: a KUBECONFIG that answers, kind, or one of our own. Must not know what it is for."""

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
    """Return the cluster that is up, without bringing one up."""
    given = _given()
    if given is not None:
        return Existing(given)
    if _engine_works() and _kind_is_up():
        return Kind(_kind_kubeconfig())
    return OwnNode() if node.answers() else None


def sort_to_expect() -> str:
    """Say which sort of cluster `bring_up` would return: "existing", "kind" or "node"."""
    if _given() is not None:
        return "existing"
    return "kind" if _engine_works() else "node"


def bring_up() -> Cluster:
    """Return a cluster that answers; make one if need be.

    Raises:
        ClusterError: there is none, and none can be made here.
    """
    given = _given()
    cluster: Cluster
    if given is not None:
        cluster = Existing(given)
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
    """Take down what `bring_up` made; a cluster that was there before stays."""
    if _given() is not None:
        say("The cluster of your KUBECONFIG stays as it is.")
    if _engine_works() and _kind_is_up():
        run([KIND.build(), "delete", "cluster", f"--name={KIND_NAME}"], what="Deleting the kind cluster")
    node.down()
    KUBECONFIG_LINK.unlink(missing_ok=True)


def _given() -> Path | None:
    """The KUBECONFIG of the environment, if it answers and is not one that we have made."""
    named = os.environ.get("KUBECONFIG")
    if not named:
        return None
    file = Path(named)
    if not file.exists() or f'"{NODE_NAME}"' in file.read_text() or f"kind-{KIND_NAME}" in file.read_text():
        return None
    kubectl = shutil.which("kubectl") or str(KUBE.build().with_name("kubectl"))
    if works(kubectl, f"--kubeconfig={file}", "get", "--raw=/readyz"):
        return file
    say(f"The cluster of KUBECONFIG={named} does not answer; looking for another")
    return None


def _engine_works() -> bool:
    return shutil.which("docker") is not None and works("docker", "info")


def _kind_is_up() -> bool:
    return KIND_NAME in run([KIND.build(), "get", "clusters"], what="Asking kind").split()


def _kind_kubeconfig() -> Path:
    return KUBECONFIG_LINK.with_name("kind.kubeconfig")


def _bring_up_kind() -> Cluster:
    file = _kind_kubeconfig()
    file.parent.mkdir(parents=True, exist_ok=True)
    options = [f"--name={KIND_NAME}", f"--kubeconfig={file}"]
    if _kind_is_up():
        run([KIND.build(), "export", "kubeconfig", *options], what="Asking kind for the kubeconfig")
    else:
        with stage("kind: creating a cluster (1 to 3 minutes)"):
            run([KIND.build(), "create", "cluster", *options, "--wait=180s"], what="Creating a kind cluster")
    return Kind(file)
