"""Owns the Debian packages the cluster needs: which are missing, and getting them. Must not know what they are for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kit.cluster.places import ClusterError, places
from kit.cluster.shell import run, say
from kit.machine.maven import file_lock

if TYPE_CHECKING:
    from collections.abc import Mapping

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
"""A program (or file) to the Debian package that has it."""


def find(program: str) -> str | None:
    """Find a program, also where only root's PATH leads."""
    if program.startswith("/"):
        return program if Path(program).exists() else None
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM_PATHS]))


def install(wanted: Mapping[str, str], *, reason: str) -> None:
    """Install the packages of the programs that are missing.

    Raises:
        ClusterError: this process may not install packages, or there is no apt.
    """
    missing = sorted({package for program, package in wanted.items() if find(program) is None})
    if not missing:
        return
    names = " ".join(missing)
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise ClusterError(
            f"The test cluster needs {names} ({reason}), which only root on Debian can install by itself: "
            f"run `sudo apt-get install {names}` or the like, and try again."
        )
    say(f"Debian packages: {names}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with file_lock(places().cache / "cluster" / "apt.lock"):
        run([apt, "update", "-qq"], what="Reading the lists of Debian packages", environment=environment)
        options = ["-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
        run([apt, "install", *options, *missing], what=f"Installing {names}", environment=environment)
    still = [program for program in wanted if find(program) is None]
    if still:
        raise ClusterError(f"Debian's packages {names} did not bring {' '.join(still)}: install them by hand.")
