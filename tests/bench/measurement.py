"""Owns measuring a program from outside: its seconds, and the CPU time and memory of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

GAPLESS = str(Path(sys.executable).parent / "gapless")
_TICKS_PER_SECOND = 100
"""In /proc."""


def process_tree(pid: int) -> list[int]:
    """Return the IDs of a process and all its descendants."""
    pids = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                pids += process_tree(int(child))
    return pids


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
    """Run a program and wait; return its seconds, CPU seconds, and the peak memory of its largest process."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        errors = process.stderr.read() if process.stderr is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[:4]} failed with exit code {process.returncode}: {errors.decode()[-500:]}")
    return {
        "seconds": round(time.monotonic() - start, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": usage.ru_maxrss // 1024,
    }
