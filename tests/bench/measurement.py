"""Measuring a program from outside: its seconds, and the CPU time and memory of its processes."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

GAPLESS = str(Path(sys.executable).parent / "gapless")
_TICKS_PER_SECOND = 100
"""In /proc."""
_SUBREAPER = 36
"""``PR_SET_CHILD_SUBREAPER``."""


def process_tree(pid: int) -> list[int]:
    """Return the IDs of a process and all its descendants."""
    return [pid, *(each for child in children(pid) for each in process_tree(child))]


def children(pid: int) -> set[int]:
    """Return the IDs of the children of a process; none if it has ended."""
    found: set[int] = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
    return found


class Usage:
    """CPU time and peak memory of a process and its descendants, as far as they were sampled."""

    def __init__(self) -> None:
        self._cpu_seconds: dict[int, float] = {}
        self._peak_mib: dict[int, int] = {}

    def sample(self, pid: int) -> None:
        """Read the usage of the process and its descendants."""
        for process in process_tree(pid):
            with suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                self._cpu_seconds[process] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
                status = Path(f"/proc/{process}/status").read_text()
                self._peak_mib[process] = int(status.partition("VmHWM:")[2].split()[0]) // 1024

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu_seconds.values())

    @property
    def peak_mib(self) -> int:
        """The sum of the peaks of all processes."""
        return sum(self._peak_mib.values())


def measure_command(command: list[str]) -> dict[str, float]:
    """Run a program, and wait for it and what it has left behind, such as a JVM that ends after it.

    Where this user may make a control group, the CPU time is that of the group: a process that its parent kills and
    does not wait for, as Spark does with Python's workers, counts only there.

    Returns its seconds, the CPU seconds of all its processes, and the peak memory of the largest one.
    """
    group = _new_group()
    if group is not None:
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # this process inherits orphans
    others = children(os.getpid())
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        errors = process.stderr.read() if process.stderr is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    while orphans := children(os.getpid()) - others:
        for pid in orphans:
            os.waitpid(pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if group is not None:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        cpu_seconds = _cpu_seconds_of(group)
        group.rmdir()
    if process.returncode != 0:
        raise SystemExit(f"{command[:4]} failed with exit code {process.returncode}: {errors.decode()[-500:]}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mib": usage.ru_maxrss // 1024,
    }


def _new_group() -> Path | None:
    """Make a control group, of version 1 or 2; ``None`` if this user may not."""
    for hierarchy in (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")):
        group = hierarchy / f"gapless-bench-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            if (group / "cgroup.procs").exists():
                return group
            group.rmdir()  # a folder that is none, beside the hierarchies of version 1
    return None


def _cpu_seconds_of(group: Path) -> float:
    first_version = group / "cpuacct.usage"
    if first_version.exists():
        return int(first_version.read_text()) / 1e9
    return int((group / "cpu.stat").read_text().partition("usage_usec ")[2].split()[0]) / 1e6
