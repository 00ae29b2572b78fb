"""Noticing that the kernel has changed an interface, a route or a neighbour entry.

Must not know whether a change matters. It costs one system call that finds nothing, so it can be called often; a query
of the state costs a thousand times as much.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

_GROUPS = 1 << 0 | 1 << 2 | 1 << 6 | 1 << 10
"""RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV4_ROUTE and RTNLGRP_IPV6_ROUTE of rtnetlink(7), as bits."""
_NEW_LINK, _DELETED_LINK, _NEW_NEIGHBOUR, _DELETED_NEIGHBOUR = 16, 17, 28, 29
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiI")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_ATTRIBUTE = struct.Struct("=HH")
_DESTINATION = 1
_UP_AND_RUNNING = 0x1 | 0x40
_USABLE_STATES = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80
_RECEIVE_BYTES = 1 << 16


class Watched(NamedTuple):
    """What datagrams need."""

    interface_number: int
    neighbour: bytes | None
    """The packed address of the next hop; ``None`` if it needs no entry."""


class Changes(NamedTuple):
    """What the kernel has reported since the last call."""

    any_at_all: bool
    interrupted: bool
    """Whether the interface was down, or the neighbour entry unusable, in the meantime."""


class LinkChanges:
    """The reports of the kernel since this was opened."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened

    @classmethod
    def open(cls) -> Self:
        """Begin to listen; needs no privileges. Raises OSError."""
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        try:
            opened.bind((0, _GROUPS))
            opened.setblocking(False)
        except BaseException:
            opened.close()
            raise
        return cls(opened)

    def since_last(self, watched: Watched) -> Changes:
        """Return what has changed since the last call; never waits."""
        any_at_all = interrupted = False
        while True:
            try:
                received = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return Changes(any_at_all, interrupted)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                any_at_all = interrupted = True  # Reports were lost, so nothing is known.
                continue
            any_at_all = True
            interrupted |= any(_interrupts(kind, body, watched) for kind, body in _messages(received))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _messages(received: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _HEADER.size <= len(received):
        length, kind, *_ = _HEADER.unpack_from(received, start)
        if length < _HEADER.size:
            return
        yield kind, received[start + _HEADER.size : start + length]
        start += (length + 3) & ~3


def _interrupts(kind: int, body: bytes, watched: Watched) -> bool:
    with contextlib.suppress(struct.error):
        if kind in {_NEW_LINK, _DELETED_LINK}:
            _, _, number, flags = _LINK.unpack_from(body)
            is_down = kind == _DELETED_LINK or flags & _UP_AND_RUNNING != _UP_AND_RUNNING
            return bool(number == watched.interface_number and is_down)
        if kind in {_NEW_NEIGHBOUR, _DELETED_NEIGHBOUR} and watched.neighbour is not None:
            _, number, state, *_ = _NEIGHBOUR.unpack_from(body)
            is_lost = kind == _DELETED_NEIGHBOUR or not state & _USABLE_STATES
            if number == watched.interface_number and is_lost:
                return _destination(body) == watched.neighbour
    return False


def _destination(body: bytes) -> bytes | None:
    start = _NEIGHBOUR.size
    while start + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, start)
        if length < _ATTRIBUTE.size:
            return None
        if kind == _DESTINATION:
            return body[start + _ATTRIBUTE.size : start + length]
        start += (length + 3) & ~3
    return None
