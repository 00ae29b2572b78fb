"""A UDP port that records every datagram; must not know their contents or the product."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from typing import Self

from kit.network.datagrams import open_receiver

_AT_ONCE = 1000
"""Datagrams that are recorded before a waiting `settled` may look."""


class Listener:
    """A bound loopback port; a thread reads it while the block lasts."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._socket = open_receiver(address, 0, buffer_bytes=64 << 20)
        self.port: int = self._socket.getsockname()[1]
        self.arrivals: list[tuple[float, bytes]] = []
        """Monotonic seconds and datagram, in the order of arrival."""
        self._open = True
        self._recording = threading.Lock()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        while self._open:
            if self._is_waiting(0.1):
                with self._recording, contextlib.suppress(BlockingIOError):
                    for _ in range(_AT_ONCE):
                        datagram = self._socket.recv(65536)
                        self.arrivals.append((time.monotonic(), datagram))

    def _is_waiting(self, timeout_seconds: float = 0.0) -> bool:
        """Whether a datagram is in the kernel's buffer."""
        poll = select.poll()  # select() refuses descriptors from 1,024 on, which a long session reaches
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_seconds * 1000))

    @property
    def datagrams(self) -> list[bytes]:
        """The datagrams so far."""
        return [datagram for _, datagram in self.arrivals]

    def settled(self, quiet_seconds: float = 0.3) -> list[bytes]:
        """Wait until no datagram arrives for `quiet_seconds`; return all of them.

        What is in the kernel's buffer has arrived, also if a busy machine has not let the thread read it.
        """
        count = -1
        while True:
            with self._recording:
                if count == len(self.arrivals) and not self._is_waiting():
                    return self.datagrams
                count = len(self.arrivals)
            time.sleep(quiet_seconds)

    def wait_for(self, count: int, timeout_seconds: float = 120.0) -> None:
        """Wait until `count` datagrams have arrived. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.arrivals) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.arrivals)} of {count} datagrams after {timeout_seconds} s")
            time.sleep(0.01)

    def forget(self) -> None:
        """Clear the recorded datagrams."""
        self.arrivals.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()
        self._socket.close()
