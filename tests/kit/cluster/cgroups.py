"""Owns the one control group below which the node's pods live, in version 1 and 2; must not touch any other."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V1_HIERARCHIES = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
_V2_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")


def make(name: str) -> None:
    """Make the group `name` wherever the kubelet will look for it."""
    if (_ROOT / "cgroup.controllers").exists():
        _make_v2(name)
        return
    for hierarchy in _V1_HIERARCHIES:
        above = _ROOT / hierarchy
        if not above.is_dir():
            continue
        group = above / name
        group.mkdir(exist_ok=True)
        if hierarchy == "cpuset":
            # A new group of this hierarchy has neither processors nor memory until it is told.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((above / setting).read_text())


def _make_v2(name: str) -> None:
    for controller in _V2_CONTROLLERS:
        # Mostly systemd has done it already; a controller that the machine does not give away is not needed.
        with contextlib.suppress(OSError):
            (_ROOT / "cgroup.subtree_control").write_text(f"+{controller}")
    (_ROOT / name).mkdir(exist_ok=True)


def remove(name: str) -> bool:
    """Remove the group `name` with all below it; False while a process in it still ends."""
    left = False
    for above in (_ROOT, *(path for path in _ROOT.iterdir() if path.is_dir())):
        group = above / name
        if not group.is_dir():
            continue
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left = True
    return not left
