"""Starting and stopping our own single-node cluster, and loading images into it.

Must not know other providers or the product.
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
from collections.abc import Callable, Sequence
from pathlib import Path

from kit.cluster import cgroups, configuration, pki
from kit.cluster.base_images import base_archives
from kit.cluster.build import COREDNS, KUBE
from kit.cluster.namespaces import Holder, child_of, inside, read_holder, start_time
from kit.cluster.packages import NODE_PACKAGES, find, install
from kit.cluster.places import HERE, NODE_NAME, POD_GATEWAY, ClusterError, places
from kit.cluster.shell import run, stage, works
from kit.machine.maven import file_lock

_FIRST_PORT = 16443
_READY = f'jsonpath={{.items[?(@.metadata.name=="{NODE_NAME}")].status.conditions[?(@.type=="Ready")].status}}'


def holder() -> Holder | None:
    """Return the process that holds the cluster's namespaces, or None if the cluster is down."""
    return read_holder(places().run / "holder")


def running_holder() -> Holder:
    """Return the process that holds the cluster's namespaces. Raises ClusterError when the cluster is down."""
    process = holder()
    if process is None:
        raise ClusterError("The cluster is not up: run `make cluster`.")
    return process


def answers() -> bool:
    """Whether the cluster is up and its API server is ready."""
    return holder() is not None and _kubectl_works("get", "--raw=/readyz")


def up() -> None:
    """Start the cluster if it is down.

    Raises:
        ClusterError: this machine does not support it, or a part did not start.
    """
    if platform.system() != "Linux":
        raise ClusterError("A cluster without Docker needs Linux: start Docker, or set KUBECONFIG.")
    if os.geteuid() != 0:
        raise ClusterError("A cluster without Docker needs root: start Docker, set KUBECONFIG, or run this as root.")
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
                _wait_until_ready()
            except ClusterError as error:
                logs = _save_logs()
                _down()
                raise ClusterError(f"{error} The daemons' logs are in {logs}.") from None


def down() -> None:
    """Stop the cluster with all its processes."""
    with file_lock(places().lock):
        _down()


def load(archives: Sequence[Path]) -> None:
    """Load image archives; an unchanged archive that was loaded before is skipped."""
    # Removing images in one process could delete layers that another one is unpacking.
    with file_lock(places().run / "loading.lock"):
        loaded = False
        for archive in archives:
            marker = places().run / "loaded" / str(archive.resolve()).replace("/", "_")
            status = archive.stat()
            version = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
            if marker.exists() and marker.read_text() == version:
                continue
            _ctr("import", "--digests=false", str(archive.resolve()), what=f"Loading {archive.name}")
            marker.parent.mkdir(exist_ok=True)
            marker.write_text(version)
            loaded = True
        if loaded:
            _remove_replaced_images()


def add_tag(image: str, name: str) -> None:
    """Add a name to a loaded image."""
    _ctr("tag", "--force", *full_names(image, name), what=f"Naming {image}")


def full_names(*names: str) -> list[str]:
    """Return image names in containerd's format."""
    return [f"docker.io/{name}" for name in names]


def _remove_replaced_images() -> None:
    """Remove images whose name now refers to a newer one; nothing else removes them, and they take gigabytes."""
    listed = [line.split() for line in _ctr("list", what="Listing images").splitlines()[1:]]
    names = {columns[0]: columns[2] for columns in listed}
    named = {digest for name, digest in names.items() if not name.startswith("sha256:")}
    replaced = [name for name, digest in names.items() if digest not in named]
    if replaced:
        _ctr("remove", "--sync", *replaced, what="Removing replaced images")


def _ctr(verb: str, *arguments: str, what: str) -> str:
    """Run containerd's client in containerd's mount namespace, because unpacking mounts layers."""
    socket_file = configuration.containerd_socket(places())
    client = [
        "nsenter",
        f"--target={running_holder().pid}",
        "--mount",
        find("ctr") or "ctr",
        f"--address={socket_file}",
    ]
    return run([*client, "--namespace=k8s.io", "images", verb, *arguments], what=what)


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

    def is_ready() -> bool:
        if outer.poll() is not None:
            raise ClusterError("The cluster's namespaces could not be created.")
        return (where.run / "ready").exists()

    _await(is_ready, 30, "creating the cluster's namespaces")
    pid = child_of(outer.pid)
    start = start_time(pid) if pid else None
    if pid is None or start is None:
        raise ClusterError("The first process in the cluster's namespaces exited immediately.")
    Holder(pid, start).write(where.run / "holder")
    outer.returncode = 0  # it keeps running after this process, so Popen must not wait for it
    _await(lambda: Path(f"/proc/{pid}/root{configuration.containerd_socket(where)}").exists(), 60, "containerd")


def _listen() -> socket.socket:
    """Listen on the machine's loopback, on the API server's port inside, so that one kubeconfig works on both sides."""
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
    raise ClusterError(f"No port from {_FIRST_PORT} to {_FIRST_PORT + 99} is free for the cluster's API server.")


def _wait_until_ready() -> None:
    where = places()
    _await(lambda: _kubectl_works("get", "--raw=/readyz"), 120, "the API server")
    (where.run / "api-answers").touch()
    _await(_node_is_ready, 120, "the node")
    _kubectl("apply", "-f", str(where.run / "base.yaml"))
    _await(lambda: _kubectl_works("-n", "default", "get", "serviceaccount", "default"), 60, "the service accounts")
    with inside(running_holder().network):
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
            raise ClusterError(f"The cluster did not start: {what} took longer than {seconds:.0f} s.")
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
    process = holder()
    if process is not None:
        os.kill(process.pid, signal.SIGKILL)
        _await(lambda: not process.alive, 30, "the end of the previous cluster")
    end = time.monotonic() + 30
    while not cgroups.remove(where.control_group):
        if time.monotonic() > end:
            raise ClusterError(f"The control group {where.control_group} still has processes: end them and retry.")
        time.sleep(0.1)
    shutil.rmtree(where.run, ignore_errors=True)
    with contextlib.suppress(OSError):
        where.sockets.rmdir()


def _save_logs() -> Path:
    """Copy the daemons' logs to a folder that survives the cluster; return it."""
    folder = places().cache / "cluster" / "failed-logs"
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        shutil.copytree(places().run / "log", folder)
    return folder
