"""The format of the keys of kafka-replicator's objects, and the folder of the commits about such objects.

An object's key is ``<region>/<topic>/<partition>/<level>/<first>-<last>`` with offsets of 20 digits. The layout has no
place for commits and topic IDs, so they are stored next to it, in a folder whose name cannot be a region.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, unpadded_decimal

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment

COMMITS_FOLDER = "_gapless"
"""kafka-replicator lists only ``<region>/<topic>/<partition>/``, so it never sees this folder."""
_NAME = re.compile(r"(\d{20})-(\d{20})")
_MAX_LEVEL = 2**31 - 1


class PeerKey(NamedTuple):
    """The key of an object, which names the offsets that it covers."""

    region: str
    topic: str
    partition: int
    level: int
    first: int
    """At most the offset of the first record, with no record in between; for kafka-replicator it is that offset."""
    last: int
    """The offset of the last record."""

    @property
    def text(self) -> str:
        """The key below the place."""
        return f"{self.region}/{self.topic}/{self.partition}/{self.level}/{self.first:020d}-{self.last:020d}"


def parse_peer_key(text: str) -> PeerKey | None:
    """Parse a key; ``None`` for a key of another format."""
    parts = text.split("/")
    if len(parts) != 5:
        return None
    partition, level = unpadded_decimal(parts[2], MAX_PARTITION), unpadded_decimal(parts[3], _MAX_LEVEL)
    name = _NAME.fullmatch(parts[4])
    if partition is None or level is None or name is None:
        return None
    first, last = int(name[1]), int(name[2])
    return PeerKey(parts[0], parts[1], partition, level, first, last) if first <= last <= MAX_OFFSET else None


def key_of(segment: Segment) -> PeerKey:
    """Return the key of a segment that has an object in this layout."""
    key = parse_peer_key(segment.object)
    if key is None:
        raise ValueError(f"{segment.object} is not a key of kafka-replicator")
    return key


def next_key_first(segments: Sequence[Segment], first: int) -> int:
    """Return where the key of the next object begins, so that kafka-replicator finds no hole before it.

    kafka-replicator treats an offset between the keys of two segments as a missing segment, and waits for it. So a key
    begins right after the last record of the previous segment, unless offsets in between are not archived.

    Args:
        segments: of the partition, sorted by first offset.
        first: the first covered offset of the next segment.
    """
    for segment in reversed(segments):
        if segment.end < first:
            break
        if segment.object:
            return min(first, key_of(segment).last + 1)
        first = min(first, segment.first)
    return first
