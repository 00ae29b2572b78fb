"""How the peer's receiver parses datagrams and reassembles fragments. Must not know sockets or Kafka.

The kit imports nothing of the product, so that the same error on both sides cannot cancel out.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

_FIXED = 13
"""Bytes of a header without the event ID."""

DEFAULT_MAX_FRAGMENTS = 4096
DEFAULT_MAX_ENTRIES = 100_000

_head = struct.Struct(">BHHH").unpack_from
_length = struct.Struct(">H").unpack_from


class RefusedDatagramError(ValueError):
    """The receiver logs this text and drops the datagram."""


class Packet(NamedTuple):
    """One datagram."""

    kind: int
    """Message type and flags."""
    number: int
    """Fragment number from 1."""
    announced: int
    """Number of fragments, as the header states it."""
    event_id: str
    payload: bytes


def parse(datagram: bytes, max_fragments: int = DEFAULT_MAX_FRAGMENTS) -> Packet:
    """Parse a datagram.

    Raises:
        RefusedDatagramError: the datagram is malformed; the text is the peer's.
    """
    size = len(datagram)
    if size < _FIXED:
        raise RefusedDatagramError(f"too short message. won't parse. length is: {size}")
    kind, number, count, id_length = _head(datagram)
    if count > max_fragments:
        raise RefusedDatagramError(f"nrMessages {count} exceeds maximum {max_fragments}")
    id_end = 7 + id_length
    if id_end + 6 > size:
        raise RefusedDatagramError(f"too long message id length. Won't parse. Length is: {id_length}")
    end = id_end + 6 + _length(datagram, id_end + 4)[0]
    if end > size:
        raise RefusedDatagramError("reading payloadLength bytes will proceed outside of the message…")
    if end != size:
        raise RefusedDatagramError(f"message length is: {size}, but parsed data is: {end}")
    payload = datagram[id_end + 6 :]
    digest = hashlib.md5(payload, usedforsecurity=False).hexdigest()
    if digest[28:].encode() != datagram[id_end : id_end + 4]:
        raise RefusedDatagramError("invalid checksum")
    return Packet(kind, number, count, datagram[7:id_end].decode(errors="surrogateescape"), payload)


class Message(NamedTuple):
    """The reassembled fragments of an event ID."""

    kind: int
    event_id: str
    body: bytes


@dataclass(slots=True)
class _Entry:
    count: int
    """As stated by the first fragment that arrived; the count in later ones is ignored."""
    first_seconds: float
    fragments: dict[int, bytes] = field(default_factory=dict)


class FragmentCache:
    """Fragments of incomplete messages.

    A complete message is removed at once, so a duplicate fragment that arrives later stays here until it expires.
    """

    def __init__(
        self,
        *,
        max_entries: int = DEFAULT_MAX_ENTRIES,
        time_to_live_seconds: float = 30.0,
        sweep_interval_seconds: float = 30.0,
    ) -> None:
        self._max_entries = max_entries
        self._time_to_live_seconds = time_to_live_seconds
        self._sweep_interval_seconds = sweep_interval_seconds
        self._next_sweep_seconds: float | None = None
        self._entries: dict[str, _Entry] = {}
        self.expired = 0
        """Messages dropped because they were incomplete for too long."""
        self.no_room = 0
        """Fragments dropped because too many messages were incomplete."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, packet: Packet, now_seconds: float) -> Message | None:
        """Add a fragment; return the message if it is now complete."""
        kind, number, count, event_id, payload = packet
        if count == 1:
            return Message(kind, event_id, payload)
        entry = self._entries.get(event_id)
        if entry is None:
            if len(self._entries) >= self._max_entries:
                self.no_room += 1
                return None
            entry = self._entries[event_id] = _Entry(count, now_seconds)
        fragments = entry.fragments
        fragments[number] = payload
        if len(fragments) < entry.count:
            return None
        numbers = range(1, entry.count + 1)
        if any(each not in fragments for each in numbers):
            return None
        del self._entries[event_id]
        return Message(kind, event_id, b"".join([fragments[each] for each in numbers]))

    def sweep(self, now_seconds: float) -> None:
        """Drop expired messages, but only once per interval, as the peer's ticker does."""
        if self._next_sweep_seconds is None:
            self._next_sweep_seconds = now_seconds + self._sweep_interval_seconds
        if now_seconds < self._next_sweep_seconds:
            return
        self._next_sweep_seconds = now_seconds + self._sweep_interval_seconds
        oldest = now_seconds - self._time_to_live_seconds
        old = [event_id for event_id, entry in self._entries.items() if entry.first_seconds < oldest]
        self.expired += len(old)
        for event_id in old:
            del self._entries[event_id]
