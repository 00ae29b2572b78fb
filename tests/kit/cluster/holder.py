"""The inside of the cluster's namespaces: mounts, networks and daemons. Runs there as PID 1.

Must not know what the cluster is used for. When it is killed, the kernel kills all processes in the namespaces and
removes mounts and networks; nothing outside was changed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from kit.cluster import configuration
from kit.cluster.forward import serve_forwarding
from kit.cluster.places import (
    DIODE_FAR,
    DIODE_NEAR,
    DIODE_NIC,
    NODE_ADDRESS,
    POD_GATEWAY,
    RETURN_FAR,
    RETURN_NEAR,
    Places,
    places,
)

_SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
_TMPFS = ("/run/containerd", "/run/netns", "/var/log/containers", "/var/lib/cni")
_RESTART_SECONDS = 1.0


def _call(*arguments: str) -> None:
    subprocess.run(arguments, check=True)


def mount_all(where: Places) -> None:
    """Mount private folders for fixed paths of the daemons, so that their files disappear with the cluster."""
    _call("mount", "--make-rshared", "/")
    for folder in (*_TMPFS, str(where.sockets)):
        Path(folder).mkdir(parents=True, exist_ok=True)
        _call("mount", "-t", "tmpfs", "tmpfs", folder)
    _call("mount", "--bind", str(where.run / "resolv.conf"), os.path.realpath("/etc/resolv.conf"))
    # The kubelet requires three global sysctls. It sees files with these values; the machine's are not changed.
    for name, value in _SYSCTLS.items():
        file = where.run / f"sysctl.{Path(name).name}"
        file.write_text(value + "\n")
        _call("mount", "--bind", str(file), f"/proc/sys/{name}")


def make_networks() -> None:
    """Create the node's network, and the far side's behind a one-way link.

    The default route uses a veth pair with both ends here: nothing leaves the namespace, but connections to service
    addresses have a route before kube-proxy redirects them. (Not every kernel has dummy interfaces.)
    """
    ip = ("ip", "link")
    _call(*ip, "set", "lo", "up")
    _call(*ip, "add", "node0", "type", "veth", "peer", "name", "node0p")
    _call("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "node0")
    _call(*ip, "set", "node0", "up")
    _call(*ip, "set", "node0p", "up")
    _call(*ip, "add", "cni0", "type", "bridge")
    _call("ip", "address", "add", f"{POD_GATEWAY}/24", "dev", "cni0")
    _call(*ip, "set", "cni0", "up")
    _call("ip", "route", "add", "default", "dev", "node0", "src", NODE_ADDRESS)
    _set_sysctl("net/ipv4/ip_forward", "1")
    _set_sysctl("net/bridge/bridge-nf-call-iptables", "1")
    _make_far_network()


def _make_far_network() -> None:
    far = ("ip", "-n", "far")
    _call("ip", "netns", "add", "far")
    _call(*far, "link", "set", "lo", "up")
    for near, far_end, near_address, far_address in (
        (DIODE_NIC, "light0", DIODE_NEAR, DIODE_FAR),
        ("return0", "kafka0", RETURN_NEAR, RETURN_FAR),
    ):
        _call("ip", "link", "add", near, "type", "veth", "peer", "name", far_end, "netns", "far")
        _call("ip", "address", "add", f"{near_address}/30", "dev", near)
        _call("ip", "link", "set", near, "up")
        _call(*far, "address", "add", f"{far_address}/30", "dev", far_end)
        _call(*far, "link", "set", far_end, "up")
    _call(*far, "route", "add", "default", "via", RETURN_NEAR)
    # A data diode returns neither ARP nor ICMP, so the sender needs a static neighbour entry, as in production.
    _call(*far, "link", "set", "light0", "arp", "off")
    hardware = subprocess.run(
        [*far, "-br", "link", "show", "light0"], check=True, capture_output=True, text=True
    ).stdout.split()[2]
    _call("ip", "neighbour", "replace", DIODE_FAR, "lladdr", hardware, "dev", DIODE_NIC, "nud", "permanent")
    _call("ip", "netns", "exec", "far", "iptables", "-A", "OUTPUT", "-o", "light0", "-j", "DROP")


def _set_sysctl(name: str, value: str) -> None:
    file = Path("/proc/sys") / name
    if file.exists():
        file.write_text(value)


class Daemons:
    """The node's processes, which are restarted when they end."""

    def __init__(self, where: Places) -> None:
        self._where = where
        self._running: dict[int, configuration.Daemon] = {}
        self._due: list[tuple[float, configuration.Daemon]] = []
        self._environment = os.environ | {
            "PATH": f"{where.programs}:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
            "KUBECONFIG": str(where.kubeconfig),
        }

    def start(self, daemon: configuration.Daemon) -> None:
        """Start a daemon with its own log file."""
        log = str(self._where.run / "log" / f"{daemon.name}.log")
        pid = os.posix_spawn(
            daemon.command[0],
            daemon.command,
            self._environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._running[pid] = daemon

    def turn(self) -> None:
        """Reap ended processes and restart those that are due."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            daemon = self._running.pop(pid, None)
            if daemon is not None:
                code = os.waitstatus_to_exitcode(status)
                print(f"{daemon.name} ended with {code}; restarting it in {_RESTART_SECONDS:.0f} s", flush=True)
                self._due.append((time.monotonic() + _RESTART_SECONDS, daemon))
        for entry in [due for due in self._due if due[0] <= time.monotonic()]:
            self._due.remove(entry)
            self.start(entry[1])


def main() -> None:
    """Create mounts and networks, start the daemons in order, and supervise them."""
    where = places()
    api_port, listener = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    mount_all(where)
    make_networks()
    (where.run / "ready").touch()
    serve_forwarding(listener, api_port)
    daemons = Daemons(where)
    for daemon in configuration.base_daemons(where, api_port):
        daemons.start(daemon)
    waiting = configuration.later_daemons(where, sys.executable)
    while True:
        daemons.turn()
        # The starting process creates this file when the API server answers; before that, these daemons would exit.
        if waiting and (where.run / "api-answers").exists():
            for daemon in waiting:
                daemons.start(daemon)
            waiting = []
        time.sleep(0.1)


if __name__ == "__main__":
    main()
