"""The TCP forwarding from the machine's loopback to the API server inside; must not know the protocol.

The listening socket was created before the namespaces, so it belongs to the machine's network; outgoing connections
belong to the network in which this runs.
"""

from __future__ import annotations

import contextlib
import socket
import threading

_CHUNK_BYTES = 1 << 16


def serve_forwarding(listener: socket.socket, port: int) -> None:
    """Forward every connection to 127.0.0.1:port, in a background thread."""
    threading.Thread(target=_accept, args=(listener, port), daemon=True).start()


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            near.close()
            continue
        far.settimeout(None)
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    # The other direction ends by itself; the sockets close when both pumps have ended.
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
