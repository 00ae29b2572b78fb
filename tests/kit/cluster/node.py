"""Owns the single-node cluster of our own through its life: up, down, and loading images into it.

Must not know other kinds of cluster, nor the product.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kit.cluster import cgroups, configuration, pki
from kit.cluster.base_images import base_archives
from kit.cluster.build import COREDNS, KUBE
from kit.cluster.namespaces import Holder, child_of, inside, remembered, started
from kit.cluster.packages import NODE_PACKAGES, find, install
from kit.cluster.places import HERE, NODE_NAME, POD_GATEWAY, ClusterError, places
from kit.cluster.shell import run, stage, works
from kit.machine.maven import file_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FIRST_PORT = 16443
_READY = f'jsonpath={{.items[?(@.metadata.name=="{NODE_NAME}")].status.conditions[?(@.type=="Ready")].status}}'


def holder() -> Holder | None:
    """Return the process that holds the cluster, if it is up."""
    return remembered(places().run / "holder")


def answers() -> bool:
    """Whether the cluster is up and its API server ready."""
    return holder() is not None and _kubectl_works("get", "--raw=/readyz")


def up() -> None:
    """Bring the cluster up unless it is.

    Raises:
        ClusterError: this machine cannot hold it, or a part did not start.
    """
    if platform.system() != "Linux":
        raise ClusterError("A cluster without Docker can be made on Linux only: start Docker, or set KUBECONFIG.")
    if os.geteuid() != 0:
        raise ClusterError(
            "A cluster without Docker can be made by root only: start Docker, set KUBECONFIG, or be root."
        )
    with file_lock(places().lock):
        if answers():
            return
        _down()
        install(NODE_PACKAGES, reason="runs its pods")
        KUBE.build()
        COREDNS.build()
        archives = base_archives()
        with stage("single-node Kubernetes: starting (half a minute)"):
            try:
                _start()
                load(archives)
                _settle()
            except ClusterError as error:
                words = _last_words()
                _down()
                raise ClusterError(f"{error} {words}") from None


def down() -> None:
    """Take the cluster down, with everything that ran in it."""
    with file_lock(places().lock):
        _down()


def load(archives: Sequence[Path]) -> None:
    """Load image archives; one that was loaded with the same content is passed over."""
    # Forgetting in one process would take away the layers that another one is just unpacking.
    with file_lock(places().run / "loading.lock"):
        loaded = False
        for archive in archives:
            note = places().run / "loaded" / str(archive.resolve()).replace("/", "_")
            state = archive.stat()
            mark = f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
            if note.exists() and note.read_text() == mark:
                continue
            _ctr("import", "--digests=false", str(archive.resolve()), what=f"Loading {archive.name}")
            note.parent.mkdir(exist_ok=True)
            note.write_text(mark)
            loaded = True
        if loaded:
            _forget_replaced_images()


def name_again(image: str, name: str) -> None:
    """Give an image that was loaded another name beside its own."""
    _ctr("tag", "--force", *full_names(image, name), what=f"Naming {image}")


def full_names(*names: str) -> list[str]:
    """Names of images as containerd writes them."""
    return [f"docker.io/{name}" for name in names]


def _forget_replaced_images() -> None:
    """Drop images that lost their name to a newer one; nobody else does, and they take gigabytes."""
    listed = [line.split() for line in _ctr("list", what="Listing images").splitlines()[1:]]
    names = {columns[0]: columns[2] for columns in listed}
    named = {digest for name, digest in names.items() if not name.startswith("sha256:")}
    replaced = [name for name, digest in names.items() if digest not in named]
    if replaced:
        _ctr("remove", "--sync", *replaced, what="Forgetting replaced images")


def _ctr(verb: str, *arguments: str, what: str) -> str:
    """Run containerd's client among the mounts where containerd lives, because unpacking mounts layers."""
    socket_file = configuration.containerd_socket(places())
    client = ["nsenter", f"--target={_required().pid}", "--mount", find("ctr") or "ctr", f"--address={socket_file}"]
    return run([*client, "--namespace=k8s.io", "images", verb, *arguments], what=what)


def _required() -> Holder:
    held = holder()
    if held is None:
        raise ClusterError("The cluster is not up: run `make cluster`.")
    return held


def _start() -> None:
    where = places()
    where.run.mkdir(parents=True)
    listener = _listen()
    port = listener.getsockname()[1]
    pki.write_all(where.run / "pki", where.run, port)
    configuration.write_all(where, port)
    cgroups.make(where.control_group)
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation=private"]
    inner = [sys.executable, "-m", "kit.cluster.holder", str(port), str(listener.fileno())]
    with (where.run / "log" / "holder.log").open("ab") as log:
        outer = subprocess.Popen(
            [*unshare, *inner],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(HERE.parent.parent), "GAPLESS_CACHE": str(where.cache)},
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    listener.close()

    def held() -> bool:
        if outer.poll() is not None:
            raise ClusterError("The cluster's namespaces could not be made.")
        return (where.run / "ready").exists()

    _await(held, 30, "making the cluster's namespaces")
    pid = child_of(outer.pid)
    begun = started(pid) if pid else None
    if pid is None or begun is None:
        raise ClusterError("The cluster's namespaces ended at once.")
    Holder(pid, begun).write(where.run / "holder")
    outer.returncode = 0  # it stays when this process ends, and is nobody's to wait for
    _await(lambda: Path(f"/proc/{pid}/root{configuration.containerd_socket(where)}").exists(), 60, "containerd")


def _listen() -> socket.socket:
    """Listen on the machine's loopback; the API server will have the same port inside, so one kubeconfig fits both."""
    for port in range(_FIRST_PORT, _FIRST_PORT + 100):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.close()
            continue
        listener.listen(64)
        return listener
    raise ClusterError(f"No port from {_FIRST_PORT} on is free for the cluster's API server.")


def _settle() -> None:
    where = places()
    _await(lambda: _kubectl_works("get", "--raw=/readyz"), 120, "the API server")
    (where.run / "api-answers").touch()
    _await(_node_is_ready, 120, "the node")
    _kubectl("apply", "-f", str(where.run / "base.yaml"))
    _await(lambda: _kubectl_works("-n", "default", "get", "serviceaccount", "default"), 60, "the service accounts")
    with inside(_required().network):
        _await(_names_resolve, 60, "the cluster's DNS")


def _node_is_ready() -> bool:
    try:
        return _kubectl("get", "nodes", "-o", _READY) == "True"
    except ClusterError:
        return False


def _names_resolve() -> bool:
    return works(find("busybox") or "busybox", "nslookup", "kubernetes.default.svc.cluster.local", POD_GATEWAY)


def _await(condition: Callable[[], object], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while True:
        if condition():
            return
        if time.monotonic() > end:
            raise ClusterError(f"The cluster did not come up: {what} took longer than {seconds:.0f} s.")
        time.sleep(0.2)


def _kubectl(*arguments: str) -> str:
    return run(
        [places().programs / "kubectl", f"--kubeconfig={places().kubeconfig}", *arguments],
        what=f"kubectl {arguments[0]}",
        timeout_seconds=60,
    )


def _kubectl_works(*arguments: str) -> bool:
    return works(places().programs / "kubectl", f"--kubeconfig={places().kubeconfig}", *arguments)


def _down() -> None:
    where = places()
    held = holder()
    if held is not None:
        os.kill(held.pid, signal.SIGKILL)
        _await(lambda: not held.alive, 30, "the end of the old one")
    end = time.monotonic() + 30
    while not cgroups.remove(where.control_group):
        if time.monotonic() > end:
            raise ClusterError(f"The control group {where.control_group} still has processes: end them and try again.")
        time.sleep(0.1)
    shutil.rmtree(where.run, ignore_errors=True)
    with contextlib.suppress(OSError):
        where.sockets.rmdir()


def _last_words() -> str:
    """What the daemons said last, for whoever has to find out why the cluster did not come up."""
    kept = places().cache / "cluster" / "failed-logs"
    shutil.rmtree(kept, ignore_errors=True)
    with contextlib.suppress(OSError):
        shutil.copytree(places().run / "log", kept)
    return f"The daemons' logs are kept in {kept}."
