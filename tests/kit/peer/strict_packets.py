"""Owns a strict reader of the wire: packets taken apart, fragments joined. Must not know sockets or Kafka.

It refuses what the peer's receiver (see `reassembly`) takes and then waits for: fragments with impossible numbers.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

_HEADER_BYTES = 13


class MalformedPacketError(ValueError):
    """A datagram that is no packet."""


class Packet(NamedTuple):
    """One datagram taken apart."""

    packet_type: int
    """Type with flags, as on the wire."""
    number: int
    """Number of this fragment, from 1."""
    fragments: int
    """Announced number of fragments."""
    packet_id: bytes
    payload: bytes


def parse_packet(datagram: bytes) -> Packet:
    """Take a datagram apart, as strictly as the usual receiver does.

    Raises:
        MalformedPacketError: it is cut short or too long, a number is impossible, or the check text is wrong.
    """
    if len(datagram) < _HEADER_BYTES:
        raise MalformedPacketError(
            f"A datagram of {len(datagram)} bytes is too short for a packet ({_HEADER_BYTES} at least)."
        )
    packet_type, number, count, id_length = struct.unpack_from(">BHHH", datagram)
    if len(datagram) < _HEADER_BYTES + id_length:
        raise MalformedPacketError(f"An id of {id_length} bytes does not fit into a datagram of {len(datagram)} bytes.")
    if not 1 <= number <= count:
        raise MalformedPacketError(f"Fragment {number} of {count} is impossible.")
    packet_id = datagram[7 : 7 + id_length]
    check = datagram[7 + id_length : 11 + id_length]
    (length,) = struct.unpack_from(">H", datagram, 11 + id_length)
    payload = datagram[13 + id_length :]
    if len(payload) != length:
        raise MalformedPacketError(f"The packet announces {length} bytes of payload and has {len(payload)}.")
    if hashlib.md5(payload, usedforsecurity=False).hexdigest()[28:].encode() != check:
        raise MalformedPacketError(f"The check text of fragment {number} of {packet_id!r} does not match its payload.")
    return Packet(packet_type, number, count, packet_id, payload)


class Message(NamedTuple):
    """A message whose fragments have all arrived."""

    packet_type: int
    """Type with flags."""
    packet_id: bytes
    body: bytes


class Reassembler:
    """Joins fragments to messages, whatever their order, repeated or not; it keeps no time and opens no socket.

    Fragments belong together when id, type and count agree, so that another encoding of the same event does not mix in.
    """

    def __init__(self, *, keep_seconds: float = 30.0, most_pending: int = 100_000) -> None:
        """Keep incomplete messages for `keep_seconds` after their first fragment, at most `most_pending` of them."""
        self._keep_seconds = keep_seconds
        self._most_pending = most_pending
        self._pending: dict[tuple[bytes, int, int], tuple[float, dict[int, bytes]]] = {}
        self.dropped = 0
        """Incomplete messages given up: too old, or pushed out by newer ones."""

    def __len__(self) -> int:
        """How many messages are incomplete."""
        return len(self._pending)

    def add(self, packet: Packet, now_seconds: float = 0.0) -> Message | None:
        """Take one packet; the message that it completes, or ``None``."""
        if packet.fragments == 1:
            return Message(packet.packet_type, packet.packet_id, packet.payload)
        key = (packet.packet_id, packet.packet_type, packet.fragments)
        entry = self._pending.get(key)
        if entry is None:
            self.expire(now_seconds)
            while len(self._pending) >= self._most_pending:
                self._drop_oldest()
            entry = self._pending[key] = (now_seconds, {})
        fragments = entry[1]
        fragments[packet.number] = packet.payload
        if len(fragments) < packet.fragments:
            return None
        del self._pending[key]
        body = b"".join(fragments[number] for number in range(1, packet.fragments + 1))
        return Message(packet.packet_type, packet.packet_id, body)

    def expire(self, now_seconds: float) -> None:
        """Give up the messages that have waited too long."""
        while self._pending and next(iter(self._pending.values()))[0] + self._keep_seconds < now_seconds:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self._pending[next(iter(self._pending))]
        self.dropped += 1
