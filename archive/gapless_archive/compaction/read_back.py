"""Owns the proof that a new segment holds what its inputs hold, before anybody commits it: its object is read again.

What the manifests of the inputs say is compared with what the object holds, so records need no digest on their way
from one to the other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_archive.segments.check import SegmentCheck
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.layouts import records_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place


class Stretch(NamedTuple):
    """Records of a new segment that follow on each other."""

    records: int
    """One at least."""
    digest: str
    """What `ContentDigest` gives for them."""
    origin: Segment | None
    """The input whose manifest says so; ``None`` when the digest is that of records that were read."""


class OtherContentError(Exception):
    """A new segment does not hold what it must."""

    def __init__(self, stretch: Stretch, problem: str) -> None:
        """Name the stretch."""
        super().__init__(problem)
        self.stretch = stretch


def read_back(place: Place, segment: Segment, stretches: Sequence[Stretch]) -> Segment:
    """Read all of a new segment and compare it with what it must hold.

    Args:
        place: of the archive.
        segment: its manifest, without a digest.
        stretches: what it must hold, in this order; together as many records as the manifest says.

    Returns:
        The manifest with the digest of what was read.

    Raises:
        OtherContentError: records are not those of an input.
        SegmentDamagedError: the object is missing, damaged, or holds something else than the manifest says.
        StoreUnreachableError: the store does not answer.
        ValueError: the stretches have another number of records.
    """
    if sum(stretch.records for stretch in stretches) != segment.records:
        raise ValueError(f"{segment.object} has {segment.records} records, and its inputs have another number")
    check = SegmentCheck(place.name, segment, with_digest=False)
    comparison = _Comparison(stretches)
    for rows in records_in(place, segment):
        check.take(rows)
        comparison.take(rows)
    check.finish()
    return replace(segment, digest=comparison.digest.text())


class _Comparison:
    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.digest = ContentDigest()
        self._left = deque(stretches)
        self._part = ContentDigest()
        self._taken = 0

    def take(self, rows: pa.RecordBatch) -> None:
        self.digest.update(rows)
        left = rows
        while left.num_rows and self._left:  # the manifest tells when there are more
            stretch = self._left[0]
            part = left.slice(0, stretch.records - self._taken)
            left = left.slice(part.num_rows)
            self._part.update(part)
            self._taken += part.num_rows
            if self._taken == stretch.records:
                self._end(stretch)

    def _end(self, stretch: Stretch) -> None:
        found = self._part.text()
        if found != stretch.digest:
            raise OtherContentError(stretch, f"{stretch.records} records have {found} and must have {stretch.digest}")
        self._left.popleft()
        self._part, self._taken = ContentDigest(), 0
