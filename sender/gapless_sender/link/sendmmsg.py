"""Sending many batches of datagrams in one system call (sendmmsg).

Must not know targets, nor what to do when the kernel refuses: it returns how many batches were sent. Python has no
sendmmsg, and its sendmsg costs as much as the kernel does for a batch of a few datagrams.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_sender.link.gso_batches import GsoBatch

MIN_BATCHES = 8
"""With fewer batches, a call for each costs no more than preparing the structures."""
MAX_BATCHES = 256
"""In one call, which takes about a millisecond: a signal must wait for it."""
_UDP_SEGMENT = 103
_MESSAGE_WORDS = 8
"""Machine words of a ``struct mmsghdr``: name, its length, parts, their number, control, its length, flags, result."""
_PARTS, _PART_COUNT, _CONTROL, _CONTROL_BYTES = 2, 3, 4, 5
_CONTROL_ROOM = socket.CMSG_SPACE(2)
_SIZE_AT = socket.CMSG_LEN(0) // 2
"""Position of the segment size in a control message, in 16-bit numbers."""

_sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
_sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_sendmmsg.restype = ctypes.c_int


class SendmmsgSender:
    """The structures for the calls of one socket, created once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts = array("L", bytes(MAX_BATCHES * 2 * array("L").itemsize))
        head = struct.pack("@Nii", socket.CMSG_LEN(2), socket.IPPROTO_UDP, _UDP_SEGMENT)
        self._control = array("H", head.ljust(_CONTROL_ROOM, b"\0") * MAX_BATCHES)
        self._messages = array("L", bytes(MAX_BATCHES * _MESSAGE_WORDS * array("L").itemsize))
        part_bytes, first_part = 2 * self._parts.itemsize, self._parts.buffer_info()[0]
        first_control = self._control.buffer_info()[0]
        every = range(MAX_BATCHES)
        self._set(_PARTS, [first_part + number * part_bytes for number in every])
        self._set(_PART_COUNT, [1] * MAX_BATCHES)
        self._set(_CONTROL, [first_control + number * _CONTROL_ROOM for number in every])

    def _set(self, word: int, values: list[int]) -> None:
        self._messages[word : len(values) * _MESSAGE_WORDS : _MESSAGE_WORDS] = array("L", values)

    def send(self, batches: Sequence[GsoBatch]) -> tuple[int, int]:
        """Send up to `MAX_BATCHES` batches, in order.

        Returns:
            How many of them the kernel accepted, and how many bytes they have. If these are not all, the next batch met
            an error, which sendmmsg does not return; sending that batch alone does.
        """
        payload = b"".join(chain.from_iterable([datagrams for _, datagrams in batches]))
        lengths = [size * (len(datagrams) - 1) + len(datagrams[-1]) for size, datagrams in batches]
        count = len(lengths)
        # The bytes object outlives the call, and the kernel only reads it.
        address = ctypes.cast(ctypes.c_char_p(payload), ctypes.c_void_p).value or 0
        self._parts[0 : 2 * count : 2] = array("L", accumulate(lengths[:-1], initial=address))
        self._parts[1 : 2 * count : 2] = array("L", lengths)
        step = _CONTROL_ROOM // 2
        self._control[_SIZE_AT : _SIZE_AT + count * step : step] = array("H", [min(size, 65535) for size, _ in batches])
        # A lone datagram goes without a control message: there is nothing to cut, and the kernel judges its size.
        self._set(_CONTROL_BYTES, [_CONTROL_ROOM if len(datagrams) > 1 else 0 for _, datagrams in batches])
        sent = max(_sendmmsg(self._descriptor, self._messages.buffer_info()[0], count, 0), 0)
        return sent, sum(lengths[:sent])
