"""The transport of an inventory over the link, as parts in status texts; must not know packets or Kafka.

The receiver writes each status text unchanged to its internal topic, with a random key. A text begins with time and
sender, like those of the live sender, and ends with::

    gapless-manifest <id> <part>/<parts> <Base64>

The parts, joined and decoded, are the inventory file compressed with gzip. Status texts are never encrypted, whatever
the receiver requires for events, so an inventory can be signed but is never secret.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError

MAX_PARTS = 10_000
"""A larger inventory is transferred as a file: if one part is lost, the others are useless."""
_MAX_UNPACKED_BYTES = 1 << 30
_MIN_ROOM = 64
"""Bytes of Base64 in a text."""
_WORD = " gapless-manifest "
_PART = re.compile(_WORD + r"([0-9]{8}-[0-9]{6}-[0-9a-f]{8}) ([0-9]{1,5})/([0-9]{1,5}) ([A-Za-z0-9+/]*={0,2})")


class Part(NamedTuple):
    """A part of an inventory."""

    inventory_id: str
    number: int
    """From 1."""
    parts: int
    text: str
    """Base64."""


def part_texts(inventory_id: str, pieces: Iterable[bytes], *, opening: str, text_bytes: int) -> list[str]:
    """Split an inventory file into status texts.

    Args:
        inventory_id: the ID in the metadata.
        pieces: the bytes of the file.
        opening: the beginning of each text, such as time and sender.
        text_bytes: the maximum length of a text, in bytes of UTF-8.

    Raises:
        ConfigurationError: there would be too many texts, or a text has too little room.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)  # gzip without a creation time
    packed = b"".join(packer.compress(piece) for piece in pieces) + packer.flush()
    coded = base64.b64encode(packed).decode("ascii")
    room = text_bytes - len(f"{opening} gapless-manifest {inventory_id} {MAX_PARTS}/{MAX_PARTS} ".encode())
    if room < _MIN_ROOM:
        raise ConfigurationError(
            f"The payload size leaves {max(room, 0)} bytes of a status text for the inventory beside the sender's "
            f"name; raise payloadSize or shorten id."
        )
    count = -(-len(coded) // room)
    if count > MAX_PARTS:
        raise ConfigurationError(
            f"The inventory takes {count:,} status texts, more than the limit of {MAX_PARTS:,}; transfer it as a file, "
            f"raise payloadSize, or leave out absent."
        )
    return [
        f"{opening} gapless-manifest {inventory_id} {number}/{count} {coded[(number - 1) * room : number * room]}"
        for number in range(1, count + 1)
    ]


def parse_part(text: bytes) -> Part | None:
    """Parse a status text; ``None`` if it is no part of an inventory."""
    start = text.rfind(_WORD.encode("ascii"))
    if start < 0:
        return None
    match = _PART.fullmatch(text[start:].decode("ascii", "replace"))
    if match is None:
        return None
    number, parts = int(match[2]), int(match[3])
    return Part(match[1], number, parts, match[4]) if 1 <= number <= parts <= MAX_PARTS else None


class PartAssembler:
    """Assembles inventories from parts in any order, with repetitions; drops the oldest ones that stay incomplete."""

    def __init__(self, *, max_incomplete: int = 16) -> None:
        """Keep at most `max_incomplete` incomplete inventories, those that received a part most recently."""
        self._most_incomplete = max_incomplete
        self._incomplete: dict[tuple[str, int], dict[int, str]] = {}

    @property
    def incomplete_ids(self) -> list[str]:
        """The IDs of inventories of which parts are missing, also in a repetition."""
        return sorted({inventory_id for inventory_id, _ in self._incomplete})

    def add(self, part: Part) -> bytes | None:
        """Add a part; return the bytes of the inventory file if it completes one, else ``None``."""
        key = (part.inventory_id, part.parts)
        texts = self._incomplete.pop(key, {})
        texts[part.number] = part.text
        if len(texts) == part.parts:
            return _decompressed("".join(texts[number] for number in range(1, part.parts + 1)))
        self._incomplete[key] = texts
        while len(self._incomplete) > self._most_incomplete:
            del self._incomplete[next(iter(self._incomplete))]
        return None


def _decompressed(coded: str) -> bytes:
    """Return the file; nothing if the parts do not fit together, which the reader then refuses."""
    try:
        return zlib.decompressobj(31).decompress(base64.b64decode(coded, validate=True), _MAX_UNPACKED_BYTES)
    except (binascii.Error, zlib.error):
        return b""
