"""The wire format: turns (id, body) into datagrams and datagrams back into (id, body).

Must not know sockets, Kafka, encryption or compression: a body is opaque bytes here.

Every datagram is one packet; integers are big-endian and unsigned, ``n`` is the length of the id::

    0    1  type; 0x20 is added when the body is gzip
    1    2  number of this fragment, from 1
    3    2  number of fragments of the message
    5    2  n
    7    n  id: <topic>_<partition>_<offset>, STATUS or KEY_UPDATE#
    7+n  4  last four hex digits (lower case ASCII) of the MD5 of this fragment's payload
    11+n 2  length m of the payload
    13+n m  payload

The number of fragments is ceil(length / capacity). The open-source sender writes one more when the length is an exact
multiple of the capacity, and its receiver then never completes the message.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import IntEnum
from functools import cache, partial
from itertools import repeat

from gapless_api.base.errors import ConfigurationError

try:  # some 150 ns less for each small event than OpenSSL's, whose set-up outweighs its speed below 1 KiB
    from _md5 import md5
except ImportError:  # pragma: no cover -- an interpreter built without its own hashes
    md5 = partial(hashlib.md5, usedforsecurity=False)


HEADER_BYTES = 13
"""Bytes of a packet other than its id and its payload."""
MAX_FRAGMENTS = 65535
"""The maximum of the 16-bit field."""
RECEIVER_FRAGMENTS = 4096
"""The maximum that the usual receiver accepts for one message (its maxNrMessages); it drops longer messages."""
RECEIVER_KEEPS_SECONDS = 30
"""How long the usual receiver keeps an incomplete message, from its first fragment on."""
MAX_OFFSET_DIGITS = 19
GZIP_FLAG = 0x20
STATUS_ID = b"STATUS"
KEY_ID = b"KEY_UPDATE#"


class PacketType(IntEnum):
    """The type of a packet. An event adds `GZIP_FLAG` when its body (inside the encryption, if any) is gzip."""

    ENCRYPTED = 0
    ERROR = 1
    STATUS = 2
    KEY_EXCHANGE = 3
    CLEAR = 6


class PacketError(ValueError):
    """A message that does not fit the wire format."""


def fragment_count(body_length: int, id_length: int, payload_size: int) -> int:
    """Return how many packets a body of `body_length` bytes needs; an empty body needs one.

    Raises:
        PacketError: no byte of payload fits beside the id, or there would be more than `MAX_FRAGMENTS`.
    """
    capacity = payload_size - HEADER_BYTES - id_length
    if capacity <= 0:
        raise PacketError(
            f"A packet of {payload_size} bytes has no room for a payload: its header takes {HEADER_BYTES} bytes and "
            f"its id {id_length}; raise payloadSize."
        )
    count = -(-body_length // capacity) or 1
    if count > MAX_FRAGMENTS:
        raise PacketError(
            f"A body of {body_length} bytes needs {count} packets of {payload_size} bytes, and one message can have "
            f"{MAX_FRAGMENTS} at most (the usual receiver takes {RECEIVER_FRAGMENTS}); raise payloadSize to at least "
            f"{-(-body_length // MAX_FRAGMENTS) + HEADER_BYTES + id_length}."
        )
    return count


def packetize(packet_type: int, event_id: bytes, body: bytes, payload_size: int) -> list[bytes]:
    """Split `body` into datagrams of at most `payload_size` bytes, in order.

    Raises:
        PacketError: the body does not fit packets of this size.
    """
    count = fragment_count(len(body), len(event_id), payload_size)
    capacity = payload_size - HEADER_BYTES - len(event_id)
    uint16 = _uint16()
    before = bytes([packet_type])
    after = uint16[count] + uint16[len(event_id)] + event_id
    view = memoryview(body)
    packets = []
    for number in range(1, count + 1):
        payload = view[(number - 1) * capacity : number * capacity]
        check = md5(payload).hexdigest()[28:].encode()
        packets.append(b"".join((before, uint16[number], after, check, uint16[len(payload)], payload)))
    return packets


def event_fragments(datagrams: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Group the datagrams of consecutive events by event."""
    start = 0
    while start < len(datagrams):
        end = start + int.from_bytes(datagrams[start][3:5], "big")
        yield list(datagrams[start:end])
        start = end


class EventPacketizer:
    """Turns the events of one downstream partition into datagrams.

    What is the same for all events is computed once: measured by ``tests/bench/bench_wire.py``, an event that fits one
    packet costs some 0.7 µs, of which the MD5 takes more than half.
    """

    def __init__(self, topic: str, partition: int, payload_size: int) -> None:
        self.payload_size = payload_size
        self._id_start = f"{topic}_{partition}_".encode()
        self._heads: dict[tuple[int, int], bytes] = {}
        self._room = payload_size - HEADER_BYTES - len(self._id_start)
        """The bytes for an offset's digits and the payload."""
        if self._room <= MAX_OFFSET_DIGITS:
            raise ConfigurationError(
                f"The payload size {payload_size} is too small for the events of {topic}: their ids take up to "
                f"{len(self._id_start) + MAX_OFFSET_DIGITS} bytes and the header {HEADER_BYTES}; raise payloadSize."
            )

    def fragment_count(self, offset: int, body_length: int) -> int:
        """Return how many datagrams the event needs. Raises PacketError when it does not fit the wire format."""
        return fragment_count(body_length, len(self._id_start) + len(str(offset)), self.payload_size)

    def largest_body(self, fragments: int = RECEIVER_FRAGMENTS) -> int:
        """Return the length of the longest body that needs at most `fragments` packets, whatever its offset."""
        return (self._room - MAX_OFFSET_DIGITS) * fragments

    def add_batch(
        self,
        out: list[bytes],
        offsets: Sequence[int],
        packet_types: int | Sequence[int],
        bodies: Sequence[bytes],
    ) -> None:
        """Append the datagrams of many events to `out`, in order.

        Args:
            out: receives the datagrams.
            offsets: one for each event.
            packet_types: type with flags, one for all events or one for each.
            bodies: one for each event, ready for the wire (compressed, encrypted).

        Raises:
            PacketError: an event does not fit the wire format; the datagrams of the events before it are in `out`.
        """
        append = out.append
        uint16 = _uint16()
        types = repeat(packet_types, len(offsets)) if isinstance(packet_types, int) else packet_types
        low = high = capacity = 0
        present_type = -1
        head = b""
        for offset, packet_type, body in zip(offsets, types, bodies, strict=True):
            if not low <= offset < high or packet_type != present_type:
                digits = len(str(offset))
                low, high = 10 ** (digits - 1) if digits > 1 else 0, 10**digits
                capacity = self._room - digits
                head, present_type = self._head(packet_type, digits), packet_type
            length = len(body)
            if length <= capacity:
                append(b"%b%d%b%b%b" % (head, offset, md5(body).hexdigest()[28:].encode(), uint16[length], body))
            else:
                out += packetize(packet_type, b"%b%d" % (self._id_start, offset), body, self.payload_size)

    def _head(self, packet_type: int, digits: int) -> bytes:
        """Return the bytes before an offset of `digits` digits in an unfragmented packet."""
        head = self._heads.get((packet_type, digits))
        if head is None:
            head = struct.pack(">BHHH", packet_type, 1, 1, len(self._id_start) + digits) + self._id_start
            self._heads[packet_type, digits] = head
        return head


def status_packet(text: str, payload_size: int = 1400) -> bytes:
    """Return a STATUS packet; `text` is truncated (at a character) to fit one packet of `payload_size`.

    The receiver shows only the first fragment of a status, and status is clear text even when events are encrypted.
    """
    capacity = payload_size - HEADER_BYTES - len(STATUS_ID)
    body = text.encode(errors="replace")[: max(capacity, 0)].decode(errors="ignore").encode()
    return packetize(PacketType.STATUS, STATUS_ID, body, payload_size)[0]


def rfc3339(moment: datetime) -> str:
    """Format `moment` (with a time zone) to the second, for status texts: ``…Z`` for UTC, else ``…±hh:mm``.

    Raises:
        ValueError: `moment` has no time zone.
    """
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a status needs a moment with its time zone")
    text = moment.replace(microsecond=0, tzinfo=None).isoformat()
    minutes = round(offset.total_seconds() / 60)
    if not minutes:
        return f"{text}Z"
    return f"{text}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def starting_text(moment: datetime, sender_id: str, resend_file_name: str) -> str:
    """The status at the start of a resend."""
    return f"{rfc3339(moment)} {sender_id} starting up with resendFileName: {resend_file_name}"


def finished_text(moment: datetime, sender_id: str) -> str:
    """The status at the end of a resend."""
    return f"{rfc3339(moment)} {sender_id} finished"


def stopping_text(moment: datetime, sender_id: str) -> str:
    """The status of a resend that a signal ends."""
    return f"{rfc3339(moment)} {sender_id} shutting down"


@cache
def _uint16() -> tuple[bytes, ...]:
    """Return all 16-bit numbers in wire format (a lookup costs half of an encoding)."""
    return tuple(number.to_bytes(2, "big") for number in range(65536))
