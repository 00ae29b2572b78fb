"""The command line of the test cluster; must not contain any of the work."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from kit.cluster import namespaces, selection
from kit.cluster.access import Cluster, OwnNode
from kit.cluster.places import KUBECONFIG_LINK, ClusterError, places
from kit.cluster.prepare import prepare
from kit.cluster.shell import say


def _up(_options: argparse.Namespace) -> None:
    cluster = selection.bring_up()
    say(f"The cluster ({cluster.provider}) is up; use it with: export KUBECONFIG={KUBECONFIG_LINK}")
    print(KUBECONFIG_LINK)


def _prepare(_options: argparse.Namespace) -> None:
    prepare()


def _down(_options: argparse.Namespace) -> None:
    selection.take_down()


def _status(_options: argparse.Namespace) -> None:
    cluster = selection.find()
    if cluster is None:
        print("down")
        sys.exit(1)
    print(f"up ({cluster.provider}), {cluster.kubeconfig}")
    print(cluster.kubectl("get", "nodes,pods", "--all-namespaces", "-o", "wide"), end="")


def _in(options: argparse.Namespace) -> None:
    cluster = _running_cluster()
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    if isinstance(cluster, OwnNode):
        holder = cluster.holder()
        namespaces.enter(holder.far_network if options.far else holder.network)
        # A private mount replaces resolv.conf by the cluster's, only for this command.
        script = 'mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@"'
        resolv_conf = str(places().run / "resolv.conf")
        command = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", resolv_conf, *command]
    environment = cluster.environment()
    os.execvpe(command[0], command, environment)  # noqa: S606 - replaces this process by the command


def _load(options: argparse.Namespace) -> None:
    _running_cluster().load(options.archives)


def _running_cluster() -> Cluster:
    cluster = selection.find()
    if cluster is None:
        raise ClusterError("The cluster is not up: run `make cluster`.")
    return cluster


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m kit.cluster", description="A Kubernetes cluster for tests.")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("up", help="start a cluster and print the path of its kubeconfig").set_defaults(do=_up)
    commands.add_parser("prepare", help="build and download what a run needs").set_defaults(do=_prepare)
    commands.add_parser("down", help="stop the cluster").set_defaults(do=_down)
    commands.add_parser("status", help="show whether it is up, and its nodes and pods").set_defaults(do=_status)
    inner = commands.add_parser("in", help="run a command in the node's network")
    inner.add_argument("--far", action="store_true", help="run it behind the one-way link instead")
    inner.add_argument("command", nargs=argparse.REMAINDER)
    inner.set_defaults(do=_in)
    loading = commands.add_parser("load", help="load image archives")
    loading.add_argument("archives", nargs="+", type=Path)
    loading.set_defaults(do=_load)
    options = parser.parse_args()
    try:
        options.do(options)
    except ClusterError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
