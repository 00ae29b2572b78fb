"""Starting, ending and watching programs that must not outlive the test run; must not know what they do."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.machine.forked_program import ForkedProgram

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_STARTS = threading.Lock()
_ports_given: set[int] = set()
_reservations: list[int] = []
"""The open file whose bytes are locked, one for each port; it stays open."""

HANGING_SECONDS = 240.0
"""After so long, something hangs: far longer than anything takes on a machine that is busy with other work."""

TESTS_FOLDER = Path(__file__).resolve().parents[2]


def die_with(parent: int) -> Callable[[], None]:
    """Return the function that a child calls between fork and exec, so that it dies with `parent`.

    The kernel sends the signal when the THREAD that forked ends, so a process must be started from a thread that
    outlives it (pytest's fixtures run in the main thread).
    """

    def ask_kernel() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel


def start_bound(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that the kernel kills when this process dies for any reason."""
    with _STARTS:
        return subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, and libc is loaded already
        )


def start_module(module: str, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    """Start `python -m module` with tests/ on its path, bound to this process; `streams` as in `start_bound`."""
    environment = dict(os.environ)
    paths = [str(TESTS_FOLDER), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return start_bound([sys.executable, "-m", module, *arguments], environment=environment, **streams)


def end(process: subprocess.Popen[bytes] | ForkedProgram, *, patience_seconds: float = 15.0) -> int:
    """Terminate the process, kill it after `patience_seconds`, close its pipes, and return its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    status = process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return status


def children_of(process: subprocess.Popen[Any]) -> list[int]:
    """Return the IDs of the running child processes."""
    children: list[int] = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # of a thread that has ended meanwhile
            children += map(int, (task / "children").read_text().split())
    return children


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_exit(processes: Sequence[int]) -> None:
    """Wait until all processes have ended. Raises TimeoutError."""
    wait_until(lambda: not any(map(is_alive, processes)), what=f"the end of the processes {processes}")


@contextmanager
def stopped(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Stop the process while the block runs, as if its machine were suspended."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Find free loopback ports below the ephemeral port range, and keep them until this process ends.

    Other processes that ask get others, also while nothing listens there, as between stop and start of a broker.
    The start of the search depends on the process id, so that parallel test runs seldom compete.
    """
    ports: list[int] = []
    candidate = 10_000 + os.getpid() * 37 % 20_000
    while len(ports) < count:
        candidate = candidate + 1 if candidate < 32_000 else 10_000
        if candidate in _ports_given or not _reserve(candidate):
            continue
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
        _ports_given.add(candidate)
        ports.append(candidate)
    return ports


def _reserve(port: int) -> bool:
    """Reserve a port among the processes of this user; the lock of its byte ends with the process."""
    if not _reservations:
        file = Path(tempfile.gettempdir()) / f"gapless-test-ports-{os.getuid()}"
        _reservations.append(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        fcntl.lockf(_reservations[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], object], *, what: str, timeout_seconds: float = HANGING_SECONDS) -> None:
    """Poll `condition` until it is true: every 20 ms at first, slowing down to every 200 ms.

    Give a timeout only where the time itself is tested.

    Raises:
        TimeoutError: it was not true within `timeout_seconds`; the message names `what`.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = 0.02
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_seconds} s")
        time.sleep(pause)
        pause = min(pause * 1.1, 0.2)
