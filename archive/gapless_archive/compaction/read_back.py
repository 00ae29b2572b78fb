"""The check that a new segment holds the records of its inputs: its object is read again before the commit.

The digests in the manifests of the inputs are compared with the content of the object, so records need no digest while
they are copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_archive.segments.check import SegmentCheck
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.layouts import read_records

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place


class ExpectedRecords(NamedTuple):
    """Consecutive records that a new segment must contain."""

    records: int
    """At least one."""
    digest: str
    """Of `ContentDigest`."""
    origin: Segment | None
    """The input with this digest in its manifest; ``None`` when the digest was computed while reading."""


class ContentMismatchError(Exception):
    """A new segment does not contain the expected records."""

    def __init__(self, expected: ExpectedRecords, problem: str) -> None:
        super().__init__(problem)
        self.expected = expected


def read_back(place: Place, segment: Segment, expected: Sequence[ExpectedRecords]) -> Segment:
    """Read a new segment completely and compare it with what it must contain.

    Args:
        place: of the archive.
        segment: its manifest, without a digest.
        expected: what it must contain, in this order; as many records in total as in the manifest.

    Returns:
        The manifest with the digest of what was read.

    Raises:
        ContentMismatchError: records differ from those of an input.
        SegmentDamagedError: the object is missing, damaged, or holds something else than the manifest says.
        StoreUnreachableError: the store does not answer.
        ValueError: the number of expected records differs from the manifest.
    """
    expected_records = sum(each.records for each in expected)
    if expected_records != segment.records:
        raise ValueError(f"{segment.object} has {segment.records} records, and its inputs have {expected_records}")
    check = SegmentCheck(place.name, segment, with_digest=False)
    comparison = _Comparison(expected)
    for rows in read_records(place, segment):
        check.add(rows)
        comparison.add(rows)
    check.finish()
    return replace(segment, digest=comparison.digest.text())


class _Comparison:
    def __init__(self, expected: Sequence[ExpectedRecords]) -> None:
        self.digest = ContentDigest()
        self._expected = deque(expected)
        self._part_digest = ContentDigest()
        self._part_records = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.digest.update(rows)
        remaining = rows
        while remaining.num_rows and self._expected:  # SegmentCheck reports surplus records
            expected = self._expected[0]
            part = remaining.slice(0, expected.records - self._part_records)
            remaining = remaining.slice(part.num_rows)
            self._part_digest.update(part)
            self._part_records += part.num_rows
            if self._part_records == expected.records:
                self._compare(expected)

    def _compare(self, expected: ExpectedRecords) -> None:
        digest = self._part_digest.text()
        if digest != expected.digest:
            raise ContentMismatchError(
                expected, f"{expected.records} records have {digest} and must have {expected.digest}"
            )
        self._expected.popleft()
        self._part_digest, self._part_records = ContentDigest(), 0
