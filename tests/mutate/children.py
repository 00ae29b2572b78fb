"""Forked processes with limits on time and memory; must not know what they run."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

_EXTRA_MEMORY_BYTES = 4 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_folder() -> str | None:
    """Return a folder in memory if there is one, because the tests write many small files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- callers create and remove their own folder


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder for one child."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-mutate-", dir=memory_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def silence() -> None:
    """Discard the output of this process, because the output of failing tests is not needed."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def run_in_fork(work: Callable[[], bytes], cpu_seconds: int = 0, wall_seconds: float = 0) -> bytes | None:
    """Return the result of `work` in a child; None if it raised, died, or exceeded its CPU or wall time."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn about forks in multi-threaded processes
        child = os.fork()
    if child == 0:
        os.close(reading)
        _run_child(work, writing, cpu_seconds)
    os.close(writing)
    answer, complete = _read(reading, time.monotonic() + wall_seconds if wall_seconds else None)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and all processes that the tests started
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer[1:] if complete and answer.startswith(b"+") else None


def _run_child(work: Callable[[], bytes], writing: int, cpu_seconds: int) -> None:
    """Do the work, send the result, and exit."""
    answer = b"-"
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cpu_seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (used + _EXTRA_MEMORY_BYTES, resource.RLIM_INFINITY))
        answer = b"+" + work()
    except BaseException:  # noqa: BLE001 -- a child must never continue with the parent's code
        traceback.print_exc(file=sys.stderr)
    finally:
        with contextlib.suppress(OSError), os.fdopen(writing, "wb") as stream:
            stream.write(answer)
        os._exit(0)


def _read(reading: int, deadline: float | None) -> tuple[bytes, bool]:
    """Return the content of a pipe, and whether it was closed before the deadline."""
    parts: list[bytes] = []
    while True:
        remaining = None if deadline is None else max(deadline - time.monotonic(), 0)
        if not select.select([reading], [], [], remaining)[0]:
            return b"".join(parts), False
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts), True
        parts.append(part)
