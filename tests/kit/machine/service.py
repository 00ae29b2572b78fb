"""The protocol between a test and a kit process: JSON lines in both directions. Must not know which process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from kit.machine.processes import end, start_module

if TYPE_CHECKING:
    import socket

    from _typeshed import HasFileno

READY_SECONDS = 30.0


class ServiceEndedError(RuntimeError):
    """A kit process ended or did not answer."""


class Service:
    """The test's side of a kit process.

    The process answers on its standard output, and inherits this process's standard error.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> Self:
        """Start the process and wait until it is ready."""
        self._process = start_module(
            self._module, *self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
        )
        self._on_ready(self._read_answer())
        return self

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id, for measurements."""
        if self._process is None:
            raise ServiceEndedError(f"{self._module} was not started")
        return self._process.pid

    def wait(self, timeout_seconds: float = 30.0) -> int:
        """Wait until the process exits, and return its exit status."""
        if self._process is None:
            raise ServiceEndedError(f"{self._module} was not started")
        return self._process.wait(timeout_seconds)

    def ask(self, command: str, **values: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            ServiceEndedError: the process has ended.
        """
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                raise ServiceEndedError(f"{self._module} was not started")
            try:
                process.stdin.write(json.dumps({"command": command, **values}).encode() + b"\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise ServiceEndedError(f"{self._module} ended with {process.wait()}") from None
            return self._read_answer()

    def _on_ready(self, first: dict[str, Any]) -> None:
        """Handle the first line of the process, which it prints when it is ready."""

    def _read_answer(self) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdout is None:
            raise ServiceEndedError(f"{self._module} was not started")
        if not wait_readable([process.stdout], READY_SECONDS):
            raise ServiceEndedError(f"{self._module} did not answer within {READY_SECONDS} s")
        line = process.stdout.readline()
        if not line:
            raise ServiceEndedError(f"{self._module} ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def wait_readable(sources: Iterable[int | HasFileno], timeout_seconds: float) -> bool:
    """Wait until one of `sources` can be read, or has ended; return whether one can.

    Unlike `select.select`, this also takes file descriptors above 1,023.
    """
    poll = select.poll()
    for source in sources:
        poll.register(source, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1000))


class Control:
    """The process's side: commands, answers and signals."""

    def __init__(self) -> None:
        self.ended = False
        self._input: int | None = sys.stdin.fileno()
        self._unread = b""
        self._wakeup, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def _end(self, *_: object) -> None:
        self.ended = True

    def send(self, **values: Any) -> None:
        """Print one line of JSON."""
        print(json.dumps(values), flush=True)

    def wait(self, receiver: socket.socket, timeout_seconds: float) -> None:
        """Wait for a datagram, a command or a signal, but at most `timeout_seconds`."""
        sources: list[Any] = [receiver, self._wakeup]
        if self._input is not None:
            sources.append(self._input)
        wait_readable(sources, timeout_seconds)

    def serve(self, handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer pending commands without waiting. The end of the input does not end the process."""
        while self._input is not None and wait_readable([self._input], 0):
            chunk = os.read(self._input, 65_536)
            if not chunk:
                self._input = None
                return
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for line in lines:
                self.send(**handle(json.loads(line)))
