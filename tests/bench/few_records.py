"""Measures how much of an archive a resend of few records reads: one of a thousand, at random offsets.

The archive is in a folder and is read as ``gapless resend --archive`` reads it. All bytes that are read from objects
are counted, except those of the commit chain, which every program reads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.reading import TopicArchive, open_archive

if TYPE_CHECKING:
    from gapless_archive.store.places import Place

ONE_OF = 1000


class CountingPlace:
    """A place that counts the bytes read from objects."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.bytes_read = self.requests = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read byte ranges of an object."""
        contents = self._place.read_ranges(key, spans)
        self.bytes_read += sum(map(len, contents))
        self.requests += 1
        return contents


def few_records(place: Place, topic: str, *, times: bool = False) -> dict[str, Any]:
    """Read one of `ONE_OF` records of a topic, and compare the bytes read with the stored bytes."""
    counting, chance = CountingPlace(place), random.Random(1)
    opened = open_archive(place, topic)
    archive = TopicArchive(counting, opened.chain, opened.state)
    found = requested = stored = content = 0
    for partition in archive.state.partitions:
        segments = archive.state.segments(partition)
        stored += sum(segment.stored_bytes for segment in segments)
        content += sum(segment.bytes for segment in segments)
        count = archive.covered(partition).count
        chosen = OffsetRanges.of_offsets(sorted(chance.sample(range(count), count // ONE_OF)))
        requested += chosen.count
        for piece in archive.pieces(partition, chosen):
            found += sum(len(some.values) for some in archive.read_values(piece, times=times))
    if found != requested:
        raise SystemExit(f"{found} of {requested} records were read")
    return {
        "records": requested,
        "bytes_read": counting.bytes_read,
        "requests": counting.requests,
        "stored_bytes": stored,
        "content_bytes": content,
        "few_records_bytes_ratio": round(counting.bytes_read / stored, 4),
    }
