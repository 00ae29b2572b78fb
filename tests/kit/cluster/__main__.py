"""Owns the command line of the test cluster; must not do any of the work itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from kit.cluster import choosing, namespaces
from kit.cluster.access import Cluster, OwnNode
from kit.cluster.places import KUBECONFIG_LINK, ClusterError, places
from kit.cluster.prepare import prepare
from kit.cluster.shell import say


def _up(_options: argparse.Namespace) -> None:
    cluster = choosing.bring_up()
    say(f"The cluster ({cluster.sort}) is up; use it with: export KUBECONFIG={KUBECONFIG_LINK}")
    print(KUBECONFIG_LINK)


def _prepare(_options: argparse.Namespace) -> None:
    prepare()


def _down(_options: argparse.Namespace) -> None:
    choosing.take_down()


def _status(_options: argparse.Namespace) -> None:
    cluster = choosing.find()
    if cluster is None:
        print("down")
        sys.exit(1)
    print(f"up ({cluster.sort}), {cluster.kubeconfig}")
    print(cluster.kubectl("get", "nodes,pods", "--all-namespaces", "-o", "wide"), end="")


def _in(options: argparse.Namespace) -> None:
    cluster = _found()
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    if isinstance(cluster, OwnNode):
        holder = cluster.holder()
        namespaces.enter_for_good(holder.far_network if options.far else holder.network)
        # A private mount puts the cluster's name server into resolv.conf, for this command alone.
        script = 'mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@"'
        names = str(places().run / "resolv.conf")
        command = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", names, *command]
    environment = cluster.environment()
    os.execvpe(command[0], command, environment)  # noqa: S606 - becoming that program is the point


def _load(options: argparse.Namespace) -> None:
    _found().load(options.archives)


def _found() -> Cluster:
    cluster = choosing.find()
    if cluster is None:
        raise ClusterError("The cluster is not up: run `make cluster`.")
    return cluster


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m kit.cluster", description="A Kubernetes cluster for tests.")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("up", help="bring a cluster up and print its kubeconfig").set_defaults(do=_up)
    commands.add_parser("prepare", help="build and fetch what is slow, ahead of a run").set_defaults(do=_prepare)
    commands.add_parser("down", help="take it down").set_defaults(do=_down)
    commands.add_parser("status", help="say whether it is up and what runs in it").set_defaults(do=_status)
    inner = commands.add_parser("in", help="run a command in the network of its node")
    inner.add_argument("--far", action="store_true", help="behind the one-way link instead")
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
