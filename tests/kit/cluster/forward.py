"""Owns the door from the machine's loopback to the API server inside; must not know what is said through it.

The listening socket was made before the namespaces were, so it belongs to the machine's network; connections are made
in the network this runs in.
"""

from __future__ import annotations

import contextlib
import socket
import threading

_PIECE = 1 << 16


def serve_forwarding(listener: socket.socket, port: int) -> None:
    """Pass on every connection to 127.0.0.1:port, in the background for good."""
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
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    # The other direction ends by itself; the sockets close when neither pump holds them any more.
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
