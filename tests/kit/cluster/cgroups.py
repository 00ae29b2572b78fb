"""The control group of the node's pods, in cgroup versions 1 and 2; must not touch any other group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V1_HIERARCHIES = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
_V2_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")


def make(name: str) -> None:
    """Create the group `name` in every hierarchy that the kubelet uses."""
    if (_ROOT / "cgroup.controllers").exists():
        _make_v2(name)
        return
    for hierarchy in _V1_HIERARCHIES:
        parent = _ROOT / hierarchy
        if not parent.is_dir():
            continue
        group = parent / name
        group.mkdir(exist_ok=True)
        if hierarchy == "cpuset":
            # A new cpuset has neither CPUs nor memory nodes.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((parent / setting).read_text())


def _make_v2(name: str) -> None:
    for controller in _V2_CONTROLLERS:
        # Usually systemd has enabled them already; a controller that cannot be enabled is not needed.
        with contextlib.suppress(OSError):
            (_ROOT / "cgroup.subtree_control").write_text(f"+{controller}")
    (_ROOT / name).mkdir(exist_ok=True)


def remove(name: str) -> bool:
    """Remove the group `name` and its subgroups; return False while a process in it is still ending."""
    removed = True
    for parent in (_ROOT, *(path for path in _ROOT.iterdir() if path.is_dir())):
        group = parent / name
        if not group.is_dir():
            continue
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                removed = False
    return removed
