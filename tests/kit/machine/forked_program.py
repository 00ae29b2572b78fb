"""A program that runs as a fork of a server with its modules loaded, with the interface of `subprocess.Popen`.

As with `forked_commands`, it cannot test imports or start-up time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kit.machine.processes import die_with

_SERVER = multiprocessing.get_context("forkserver")


def load_before_forks(*modules: str) -> None:
    """Let the server import these modules when the first program starts.

    Only installed modules: the server of Python 3.11 does not see folders that this process has added to `sys.path`.
    """
    _SERVER.set_forkserver_preload(list(modules))


class ForkedProgram:
    """Calls `entry` in its own process with `arguments` in ``sys.argv``; its output is appended to `output`.

    It is killed when the server ends, which ends with this process. `pid`, `returncode` and the methods are those of
    ``subprocess.Popen``.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, entry: Callable[[], None], arguments: Sequence[str], *, environment: Mapping[str, str], output: Path
    ) -> None:
        self._process = _SERVER.Process(target=_run, args=(entry, list(arguments), dict(environment), str(output)))
        self._process.start()
        self.pid: int = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(entry: Callable[[], None], arguments: list[str], environment: dict[str, str], output: str) -> None:
    die_with(os.getppid())()
    stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in (1, 2):
        os.dup2(stream, standard)
    os.close(stream)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    entry()
