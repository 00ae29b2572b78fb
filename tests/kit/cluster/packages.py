"""Finding and installing the Debian packages that the cluster needs. Must not know what they are for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kit.cluster.places import ClusterError, places
from kit.cluster.shell import run, say
from kit.machine.maven import file_lock

_SYSTEM_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

NODE_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""Program (or file) to Debian package."""


def find(program: str) -> str | None:
    """Return the path of a program, searching root's PATH as well, or None."""
    if program.startswith("/"):
        return program if Path(program).exists() else None
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM_PATHS]))


def install(programs: Mapping[str, str], *, reason: str) -> None:
    """Install the packages of missing programs.

    Raises:
        ClusterError: apt is missing, this process is not root, or the installation failed.
    """
    missing = sorted({package for program, package in programs.items() if find(program) is None})
    if not missing:
        return
    names = " ".join(missing)
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise ClusterError(
            f"The test cluster needs {names} ({reason}), and can install packages only as root on Debian: "
            f"run `sudo apt-get install {names}` or the equivalent, and retry."
        )
    say(f"Debian packages: {names}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with file_lock(places().cache / "cluster" / "apt.lock"):
        run([apt, "update", "-qq"], what="Updating the lists of Debian packages", environment=environment)
        options = ["-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
        run([apt, "install", *options, *missing], what=f"Installing {names}", environment=environment)
    still_missing = [program for program in programs if find(program) is None]
    if still_missing:
        raise ClusterError(f"The packages {names} do not contain {' '.join(still_missing)}: install these programs.")
