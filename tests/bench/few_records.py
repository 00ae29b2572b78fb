"""Measures how much of an archive a resend of few records reads: one of a thousand, scattered evenly by chance.

The archive lies in a folder and is read as ``gapless resend --archive`` reads it. What is counted is all that comes out
of objects; the chain of commits is read by every program and not counted.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.reading import TopicArchive, open_archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.store.places import Place

ONE_OF = 1000


class CountingPlace:
    """A place that counts the bytes that are read from objects."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.bytes_read = self.requests = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read parts of an object."""
        found = self._place.read_ranges(key, spans)
        self.bytes_read += sum(map(len, found))
        self.requests += 1
        return found


def few_records(place: Place, topic: str, *, times: bool = False) -> dict[str, Any]:
    """Read one record of so many of a topic, and compare what was read with what there is."""
    counting, chance = CountingPlace(place), random.Random(1)
    opened = open_archive(place, topic)
    archive = TopicArchive(counting, opened.chain, opened.state)
    found = wanted = stored = content = 0
    for partition in archive.state.partitions:
        segments = archive.state.segments(partition)
        stored += sum(one.stored_bytes for one in segments)
        content += sum(one.bytes for one in segments)
        count = archive.covered(partition).count
        chosen = OffsetRanges.of_offsets(sorted(chance.sample(range(count), count // ONE_OF)))
        wanted += chosen.count
        for piece in archive.pieces(partition, chosen):
            found += sum(len(some.values) for some in archive.read_values(piece, times=times))
    if found != wanted:
        raise SystemExit(f"{found} records were read of {wanted}")
    return {
        "records": wanted,
        "bytes_read": counting.bytes_read,
        "requests": counting.requests,
        "stored_bytes": stored,
        "content_bytes": content,
        "few_records_bytes_ratio": round(counting.bytes_read / stored, 4),
    }
