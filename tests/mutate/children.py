"""Owns forked processes with bounds on time and memory; must not know what they try."""

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
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MORE_MEMORY_BYTES = 4 << 30
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_folder() -> str | None:
    """A folder in memory, where there is one: the tests make many small files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- removed by whoever made it


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one child, removed with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-mutate-", dir=memory_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def silence() -> None:
    """Send what this process prints nowhere; what the tests of a change say is of no use to anybody."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def forked(work: Callable[[], bytes], cpu_seconds: int = 0, wall_seconds: float = 0) -> bytes | None:
    """What `work` returned in a child; None when it raised, died, or took more CPU or wall time than it may."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons warn of forks beside threads.
        child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(work, writing, cpu_seconds)
    os.close(writing)
    answer, complete = _read(reading, time.monotonic() + wall_seconds if wall_seconds else None)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # With whatever the tests started.
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer[1:] if complete and answer.startswith(b"+") else None


def _be_child(work: Callable[[], bytes], writing: int, cpu_seconds: int) -> None:
    """Do the work and end, whatever happens."""
    answer = b"-"
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cpu_seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (used + _MORE_MEMORY_BYTES, resource.RLIM_INFINITY))
        answer = b"+" + work()
    except BaseException:  # noqa: BLE001 -- a child must never go on as its parent
        traceback.print_exc(file=sys.stderr)
    finally:
        with contextlib.suppress(OSError), os.fdopen(writing, "wb") as stream:
            stream.write(answer)
        os._exit(0)


def _read(reading: int, until: float | None) -> tuple[bytes, bool]:
    """All that comes through a pipe, and whether its end came in time."""
    parts: list[bytes] = []
    while True:
        left = None if until is None else max(until - time.monotonic(), 0)
        if not select.select([reading], [], [], left)[0]:
            return b"".join(parts), False
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts), True
        parts.append(part)
