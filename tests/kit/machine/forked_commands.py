"""Running commands as forks of a process that has already imported their modules.

A run has its own arguments, environment, working folder, output and exit code. To test imports or start-up time, start
a new process instead.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

LARGEST_REQUEST = 1 << 17


class ForkedCommands:
    """Runs the function `entry` (``module:name``) in forks of one process that has imported its module and `modules`.

    The process starts with the first run and ends with `close`, or with the process that created it.
    """

    def __init__(self, entry: str, *modules: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to that of the process, as for a library that it preloads."""
        self._arguments = [entry, *modules]
        self._environment = dict(environment or {})
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._owner = os.getpid()

    def run(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout_seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run it with `arguments` and wait; `env` and `cwd` default to those of this process."""
        if self._owner != os.getpid():  # A fork must not read the responses for its parent.
            self._server, self._owner = None, os.getpid()
        _, channel = self._server = self._server or self._start()
        request = {
            "arguments": [str(argument) for argument in arguments],
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd) if cwd else os.getcwd(),  # noqa: PTH109 -- as subprocess does
        }
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            channel.settimeout(timeout_seconds)
            socket.send_fds(channel, [json.dumps(request).encode()], [stdout.fileno(), stderr.fileno()])
            try:
                status = channel.recv(64)
            except TimeoutError:
                self.close(kill=True)
                raise
            if not status:
                self.close()
                raise ChildProcessError(f"The process that forks {self._arguments[0]} has ended.")
            for stream in (stdout, stderr):
                stream.seek(0)
            return subprocess.CompletedProcess(list(arguments), int(status), stdout.read(), stderr.read())

    def close(self, *, kill: bool = False) -> None:
        """Stop the process, and with `kill` also the running command."""
        if self._server is not None and self._owner == os.getpid():
            process, channel = self._server
            self._server = None
            channel.close()
            if kill:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno()), *self._arguments]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, **self._environment},
            )
        return process, ours


def _serve(channel: socket.socket) -> bool:
    """Fork for each request until the channel closes; return True in a fork, which must then run the command."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST_REQUEST, 2)
        if not message:
            return False
        child = os.fork()
        if child == 0:
            channel.close()
            _apply_request(json.loads(message), descriptors)
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _apply_request(request: dict[str, object], descriptors: list[int]) -> None:
    """Set this process's arguments, environment, working folder and output to those of a request."""
    for descriptor, standard in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    arguments, environment = request["arguments"], request["environment"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["folder"]))


def main() -> None:
    """Import the modules and serve requests; the arguments are a channel's descriptor, the entry and more modules."""
    descriptor, entry, *modules = sys.argv[1:]
    module, _, name = entry.partition(":")
    function = getattr(importlib.import_module(module), name)
    for preloaded in modules:
        importlib.import_module(preloaded)
    sys.argv[:] = [module]
    gc.collect()
    gc.freeze()
    if _serve(socket.socket(fileno=int(descriptor))):
        sys.exit(function())


if __name__ == "__main__":
    main()
