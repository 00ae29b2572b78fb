"""Owns how an inventory crosses the link: as status texts, each with a part of it; must not know packets or Kafka.

The receiver writes each status text as it is to its internal topic, with a random key. A text begins as those of the
live sender do, with time and sender, and ends with::

    gapless-manifest <id> <part>/<parts> <Base64>

The parts, joined and decoded, are the inventory's file compressed with gzip. Status texts are clear text whatever the
receiver demands of events, so that an inventory is signed but never secret.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PARTS = 10_000
"""A larger inventory is carried as a file: a lost part makes all others useless."""
_MAX_UNPACKED_BYTES = 1 << 30
_MIN_ROOM = 64
_WORD = " gapless-manifest "
_PART = re.compile(_WORD + r"([0-9]{8}-[0-9]{6}-[0-9a-f]{8}) ([0-9]{1,5})/([0-9]{1,5}) ([A-Za-z0-9+/]*={0,2})")


class Part(NamedTuple):
    """One part of one inventory."""

    inventory_id: str
    number: int
    """From 1."""
    parts: int
    text: str
    """Base64."""


def part_texts(inventory_id: str, pieces: Iterable[bytes], *, opening: str, text_bytes: int) -> list[str]:
    """Turn the file of an inventory, in `pieces`, into status texts.

    Args:
        inventory_id: of the metadata.
        pieces: the bytes of the file.
        opening: what each text begins with, such as time and sender.
        text_bytes: the longest text in bytes of UTF-8.

    Raises:
        ConfigurationError: too many texts, or no room for a text.
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
            f"The inventory takes {count} status texts, and {MAX_PARTS} are the most; carry it as a file, raise "
            f"payloadSize, or leave out absent."
        )
    return [
        f"{opening} gapless-manifest {inventory_id} {number}/{count} {coded[(number - 1) * room : number * room]}"
        for number in range(1, count + 1)
    ]


def parse_part(text: bytes) -> Part | None:
    """Read a status text; ``None`` for one that is no part of an inventory."""
    start = text.rfind(_WORD.encode("ascii"))
    if start < 0:
        return None
    found = _PART.fullmatch(text[start:].decode("ascii", "replace"))
    if found is None:
        return None
    number, parts = int(found[2]), int(found[3])
    return Part(found[1], number, parts, found[4]) if 1 <= number <= parts <= MAX_PARTS else None


class PartAssembler:
    """Joins parts, in any order and repeated or not; inventories that stay incomplete make room for newer ones."""

    def __init__(self, *, max_incomplete: int = 16) -> None:
        """Keep so many incomplete inventories, the ones that were heard of last."""
        self._most_incomplete = max_incomplete
        self._incomplete: dict[tuple[str, int], dict[int, str]] = {}

    @property
    def incomplete_ids(self) -> list[str]:
        """The inventories of which parts are here and parts are missing, or that came once more in part."""
        return sorted({inventory_id for inventory_id, _ in self._incomplete})

    def add(self, part: Part) -> bytes | None:
        """Take one part; the bytes of the inventory's file when it completes one, else ``None``."""
        place = (part.inventory_id, part.parts)
        held = self._incomplete.pop(place, {})
        held[part.number] = part.text
        self._incomplete[place] = held
        if len(held) == part.parts:
            del self._incomplete[place]
            return _unpacked("".join(held[number] for number in range(1, part.parts + 1)))
        while len(self._incomplete) > self._most_incomplete:
            del self._incomplete[next(iter(self._incomplete))]
        return None


def _unpacked(coded: str) -> bytes:
    """The file, or nothing when the parts do not fit together, which the reader of inventories then refuses."""
    try:
        return zlib.decompressobj(31).decompress(base64.b64decode(coded, validate=True), _MAX_UNPACKED_BYTES)
    except (binascii.Error, zlib.error):
        return b""
