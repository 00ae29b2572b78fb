"""Owns the keys of kafka-replicator's objects, and where the commits about such objects are; no store.

An object's key is ``<region>/<topic>/<partition>/<level>/<first>-<last>`` with offsets of 20 digits. The layout has no
room for commits and topic IDs, so ours stand beside the objects, below a name that cannot be a region.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, unpadded_decimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.catalog.entry import Segment

BESIDE = "_gapless"
"""The folder of the commits; kafka-replicator lists ``<region>/<topic>/<partition>/`` only and never sees it."""
_NAME = re.compile(r"(\d{20})-(\d{20})")
_MOST_LEVELS = 2**31 - 1


class PeerKey(NamedTuple):
    """Which records an object holds."""

    region: str
    topic: str
    partition: int
    level: int
    first: int
    """No record between this offset and the first one of the object exists; kafka-replicator itself uses the first."""
    last: int
    """The offset of the last record."""

    @property
    def text(self) -> str:
        """The key below the place."""
        return f"{self.region}/{self.topic}/{self.partition}/{self.level}/{self.first:020d}-{self.last:020d}"


def parse_peer_key(text: str) -> PeerKey | None:
    """Read a key; ``None`` when it is none of kafka-replicator."""
    parts = text.split("/")
    if len(parts) != 5:
        return None
    partition, level = unpadded_decimal(parts[2], MAX_PARTITION), unpadded_decimal(parts[3], _MOST_LEVELS)
    name = _NAME.fullmatch(parts[4])
    if partition is None or level is None or name is None:
        return None
    first, last = int(name[1]), int(name[2])
    return PeerKey(parts[0], parts[1], partition, level, first, last) if first <= last <= MAX_OFFSET else None


def key_of(segment: Segment) -> PeerKey:
    """The key of a segment that has an object in this layout."""
    found = parse_peer_key(segment.object)
    if found is None:
        raise ValueError(f"{segment.object} is no key of kafka-replicator")
    return found


def next_first(segments: Sequence[Segment], first: int) -> int:
    """Which first offset the key of the next object has, so that kafka-replicator finds no hole before it.

    It takes an offset without a record between two segments for a missing segment, and waits for that. So the key of a
    segment begins behind the last record of the one before, unless offsets between them are not archived.

    Args:
        segments: of the partition, by their first offset.
        first: the first offset that the next segment covers.
    """
    for segment in reversed(segments):
        if segment.end < first:
            break
        if segment.object:
            return min(first, key_of(segment).last + 1)
        first = min(first, segment.first)
    return first
