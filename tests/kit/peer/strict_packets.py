"""A strict reader of the wire format: it parses packets and reassembles fragments. Must not know sockets or Kafka.

It rejects fragments with impossible numbers, which the peer's receiver (see `reassembly`) accepts and keeps.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

_HEADER_BYTES = 13


class MalformedPacketError(ValueError):
    """The datagram is not a valid packet."""


class Packet(NamedTuple):
    """One parsed datagram."""

    packet_type: int
    """Type with flags, as on the wire."""
    number: int
    """Number of this fragment, from 1."""
    fragments: int
    """Number of fragments, as the header states it."""
    packet_id: bytes
    payload: bytes


def parse_packet(datagram: bytes) -> Packet:
    """Parse a datagram.

    Raises:
        MalformedPacketError: it is truncated or too long, a fragment number is impossible, or the checksum is wrong.
    """
    if len(datagram) < _HEADER_BYTES:
        raise MalformedPacketError(
            f"A datagram of {len(datagram)} bytes is too short for a packet (at least {_HEADER_BYTES})."
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
        raise MalformedPacketError(f"The header states {length} bytes of payload, but the packet has {len(payload)}.")
    if hashlib.md5(payload, usedforsecurity=False).hexdigest()[28:].encode() != check:
        raise MalformedPacketError(f"The checksum of fragment {number} of {packet_id!r} does not match its payload.")
    return Packet(packet_type, number, count, packet_id, payload)


class Message(NamedTuple):
    """A complete message."""

    packet_type: int
    """Type with flags."""
    packet_id: bytes
    body: bytes


class Reassembler:
    """Reassembles messages from fragments in any order, with or without duplicates; has no clock and no socket.

    Fragments belong together when ID, type and count are equal, so that two encodings of an event are never mixed.
    """

    def __init__(self, *, keep_seconds: float = 30.0, max_pending: int = 100_000) -> None:
        """Keep incomplete messages for `keep_seconds` after their first fragment, at most `max_pending` of them."""
        self._keep_seconds = keep_seconds
        self._max_pending = max_pending
        self._pending: dict[tuple[bytes, int, int], tuple[float, dict[int, bytes]]] = {}
        self.dropped = 0
        """Incomplete messages dropped because they were too old or too many."""

    def __len__(self) -> int:
        """Return the number of incomplete messages."""
        return len(self._pending)

    def add(self, packet: Packet, now_seconds: float = 0.0) -> Message | None:
        """Add a packet; return the message that it completes, or None."""
        if packet.fragments == 1:
            return Message(packet.packet_type, packet.packet_id, packet.payload)
        key = (packet.packet_id, packet.packet_type, packet.fragments)
        entry = self._pending.get(key)
        if entry is None:
            self.expire(now_seconds)
            while len(self._pending) >= self._max_pending:
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
        """Drop the messages that have been incomplete for too long."""
        while self._pending and next(iter(self._pending.values()))[0] + self._keep_seconds < now_seconds:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self._pending[next(iter(self._pending))]
        self.dropped += 1
