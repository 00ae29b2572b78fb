"""Receiving and forwarding datagrams in batches (recvmmsg, sendmmsg). Must not know their contents."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Sequence

_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO_RECEIVE_ALLOCATED = 0
_MEMINFO_DROPS = 8
_LARGEST = 65_536
"""Larger than any datagram, so that none is truncated."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_TRANSIENT = {errno.EAGAIN, errno.EINTR, errno.ENOBUFS}


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct mmsghdr of 64-bit Linux, with the compiler's padding after the flags."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("length", ctypes.c_uint32),
    )


_WORDS_PER_MESSAGE = ctypes.sizeof(_Message) // 4
_LENGTH_WORD = _Message.length.offset // 4


def open_receiver(address: str, port: int, *, buffer_bytes: int) -> socket.socket:
    """Bind a UDP socket with a large receive buffer; port 0 lets the kernel choose one.

    The buffer exceeds net.core.rmem_max if the process has the capability, else it is limited by it.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    try:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
    except PermissionError:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    receiver.bind((address, port))
    receiver.setblocking(False)
    return receiver


def buffered_and_dropped(receiver: socket.socket) -> tuple[int, int]:
    """Return the bytes in the kernel's receive buffer, and the datagrams dropped so far because it was full."""
    words = struct.unpack("9I", receiver.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
    return words[_MEMINFO_RECEIVE_ALLOCATED], words[_MEMINFO_DROPS]


class DatagramBatch:
    """A buffer for `size` datagrams, filled by `read`; `send` forwards some of them without a copy."""

    def __init__(self, size: int = 256) -> None:
        self.size = size
        self._buffer = ctypes.create_string_buffer(size * _LARGEST)
        self._base = ctypes.addressof(self._buffer)
        self._view = memoryview(self._buffer).cast("B")
        self._vectors = (_IoVector * size)()
        self._messages = (_Message * size)()
        self._outgoing_vectors = (_IoVector * size)()
        self._outgoing = (_Message * size)()
        for index in range(size):
            self._vectors[index].base = self._base + index * _LARGEST
            self._vectors[index].length = _LARGEST
            for message, vectors in (
                (self._messages[index], self._vectors),
                (self._outgoing[index], self._outgoing_vectors),
            ):
                message.vectors = ctypes.addressof(vectors) + index * ctypes.sizeof(_IoVector)
                message.vector_count = 1
        self._lengths = memoryview(self._messages).cast("B").cast("I")[_LENGTH_WORD::_WORDS_PER_MESSAGE]

    def read(self, receiver: socket.socket) -> list[int]:
        """Receive up to `size` datagrams without waiting; return their lengths."""
        count = _LIBC.recvmmsg(receiver.fileno(), self._messages, self.size, socket.MSG_DONTWAIT, None)
        if count < 0:
            code = ctypes.get_errno()
            if code in _TRANSIENT or code == errno.ECONNREFUSED:
                return []
            raise OSError(code, os.strerror(code))
        return self._lengths[:count].tolist()

    def datagram(self, index: int, length: int) -> bytes:
        """Return a copy of one datagram of the last `read`."""
        start = index * _LARGEST
        return bytes(self._view[start : start + length])

    def send(self, sender: socket.socket, indexes: Sequence[int], lengths: Sequence[int]) -> int:
        """Forward datagrams of the last `read` through a connected socket; an index may occur twice.

        Returns:
            The number of datagrams refused because no socket listens at the target.
        """
        refused = done = 0
        while done < len(indexes):
            part = indexes[done : done + self.size]
            flat = [word for index in part for word in (self._base + index * _LARGEST, lengths[index])]
            struct.pack_into(f"{len(flat)}Q", self._outgoing_vectors, 0, *flat)
            sent = _LIBC.sendmmsg(sender.fileno(), self._outgoing, len(part), 0)
            if sent >= 0:
                done += sent
                continue
            code = ctypes.get_errno()
            if code == errno.ECONNREFUSED:
                # The error is about an earlier datagram, and nothing was sent: the same call succeeds next time.
                refused += 1
            elif code not in _TRANSIENT:
                raise OSError(code, os.strerror(code))
        return refused


def send_one(sender: socket.socket, datagram: bytes) -> None:
    """Send one datagram through a connected socket; a refused connection is not an error."""
    with contextlib.suppress(ConnectionRefusedError):
        sender.send(datagram)
