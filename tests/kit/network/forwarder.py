"""A TCP forwarder that can be cut, and that hands on answers late, as a busy server gives them.

Must not know the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

_CHUNK_BYTES = 1 << 16


class Forwarder:
    """Forwards connections to a port of this machine; `forwarder` starts it."""

    def __init__(self, target: int, late_seconds: float) -> None:
        self._target, self._late_seconds = target, late_seconds
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        """The port to connect to, also after a cut."""

    def mend(self) -> None:
        """Take connections, from now on or again."""
        self._do(self._listen())

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        self._do(self._close())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _forward(self, asking: asyncio.StreamReader, answered: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(answered):
            answering, asked = await asyncio.open_connection("127.0.0.1", self._target)
            with contextlib.closing(asked):
                await asyncio.gather(_copy(asking, asked, 0), _copy(answering, answered, self._late_seconds))
        self._connections.discard(task)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()


@contextlib.contextmanager
def forwarder(target: int, late_seconds: float = 0.0) -> Iterator[Forwarder]:
    """Forward connections to the port `target` while the block lasts, with each answer some seconds late."""
    made = Forwarder(target, late_seconds)
    thread = threading.Thread(target=made._run, daemon=True)
    thread.start()
    try:
        made.mend()
        yield made
    finally:
        made.cut()
        made._loop.call_soon_threadsafe(made._loop.stop)
        thread.join()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
    """Copy what comes, in order and each chunk some seconds later, to the end."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        chunk = b"before the first"
        while chunk:
            chunk = await source.read(_CHUNK_BYTES)
            arrived.put_nowait((loop.time() + seconds, chunk))

    async def write() -> None:
        while True:
            due, chunk = await arrived.get()
            await asyncio.sleep(due - loop.time())
            if not chunk:
                break
            target.write(chunk)
            await target.drain()
        target.write_eof() if target.can_write_eof() else target.close()

    await asyncio.gather(read(), write())
