"""Brokers that all processes of a test run share; must not know which tests use them.

A pytest plugin, loaded by `tests/conftest.py`. A broker starts when the first test asks for it, in the process that
controls the run (with pytest-xdist, the parent of the workers), so that it outlives each worker and ends with the run.
The workers ask through a Unix socket: the name of a broker in, the folder of the running broker out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from kit.kafka.broker import KafkaBroker
from kit.machine.temporary import OwnedFolder

if TYPE_CHECKING:
    from kit.kafka.server import Server
    from kit.kafka.settings import Node

_HEAP = "-Xmx512m"
"""Twice that of a broker which one test uses."""
_CONFIG = {"broker.session.timeout.ms": "60000"}
"""It is never killed, and on a busy machine it may be late with its heartbeat: then no client would see any broker."""
_ADDRESS = "shared_brokers"
"""The item of a worker's input that holds the path of the socket."""
_BROKERS: pytest.StashKey[SharedBrokers] = pytest.StashKey()


class SharedBroker(KafkaBroker):
    """A running broker with all listeners and ACLs that another process owns, so nothing here can stop it.

    Names of topics, groups and transactional IDs are those of all tests: make them unique, or name them after the test.
    A test that stops a broker, alters its settings, or looks at everything in it, starts a `KafkaBroker` of its own.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, secured=True)

    def start(self, **_: Any) -> NoReturn:
        """Refuse: see the class."""
        raise RuntimeError("All tests share this broker: a test that stops one needs a KafkaBroker() of its own.")

    stop = kill = restart = close = suspended = hanging = start  # type: ignore[assignment]

    def _make_servers(self, _address: str) -> list[Server]:
        return []

    def _running_nodes(self) -> list[Node]:
        (node,) = self.nodes
        with (
            contextlib.suppress(OSError),
            socket.create_connection((node.address, node.ports["PLAINTEXT"]), timeout=30),
        ):
            return self.nodes
        return []

    @property
    def log(self) -> str:
        return (self.nodes[0].folder / "broker.log").read_text(errors="replace")[-3000:]


class SharedBrokers:
    """The brokers of a run, in the process that controls it."""

    def __init__(self) -> None:
        self._running: dict[str, KafkaBroker] = {}
        self._start = threading.Lock()
        self._folder: OwnedFolder | None = None
        self._listener: Listener | None = None
        self._is_closed = False

    def folder_of(self, name: str) -> Path:
        """Return the folder of a running broker; start it if it is not running."""
        with self._start:
            if name not in self._running:
                self._running[name] = KafkaBroker(secured=True, config=_CONFIG, jvm_options=[_HEAP]).__enter__()
            if not self._running[name].running:
                raise RuntimeError(f"The broker that all tests share has ended: {self._running[name].log}")
            return self._running[name].folder

    def serve(self) -> str:
        """Answer to other processes from now on; return the path of the socket."""
        if self._listener is None:
            self._folder = OwnedFolder()
            self._listener = Listener(str(self._folder.path / "socket"), backlog=64)
            # The kernel ends a broker with the thread that started it, so this one must live as long as the process.
            threading.Thread(target=self._answer, args=[self._listener], daemon=True).start()
        return str(self._listener.address)

    def _answer(self, listener: Listener) -> None:
        while not self._is_closed:
            with contextlib.suppress(OSError, EOFError), listener.accept() as asker:
                try:
                    asker.send(self.folder_of(asker.recv()))
                except Exception as error:  # noqa: BLE001 - the test that asked must be told
                    asker.send(str(error))

    def close(self) -> None:
        """End all brokers."""
        self._is_closed = True
        for broker in self._running.values():
            broker.close()
        if self._folder is not None and self._listener is not None:
            self._listener.close()
            self._folder.remove()


@pytest.fixture(scope="session")
def shared_broker(pytestconfig: pytest.Config) -> Callable[[str], SharedBroker]:
    """Return the broker of this run with a name. Raises RuntimeError if it does not run."""
    address = getattr(pytestconfig, "workerinput", {}).get(_ADDRESS)

    def get(name: str) -> SharedBroker:
        if address is None:
            return SharedBroker(pytestconfig.stash[_BROKERS].folder_of(name))
        with Client(address) as brokers:
            brokers.send(name)
            answer = brokers.recv()
        if not isinstance(answer, Path):
            raise RuntimeError(answer)  # noqa: TRY004 - it is the message of an error
        return SharedBroker(answer)

    return get


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the brokers of this run; none is started yet."""
    if not hasattr(config, "workerinput"):
        brokers = config.stash[_BROKERS] = SharedBrokers()
        config.add_cleanup(brokers.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where to ask."""
    node.workerinput[_ADDRESS] = node.config.stash[_BROKERS].serve()
