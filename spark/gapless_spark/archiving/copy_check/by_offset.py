"""Owns the comparison of two copies that have the same offsets: records are merged by their offset.

Must not know where the records come from. A gap of one copy hides the same offsets of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from gapless_spark.archiving.copy_check.parts import alike, unlike_rows
from gapless_spark.archiving.copy_check.streams import count_up_to, offset_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.wire.copy_report import Part, Side
    from gapless_spark.archiving.copy_check.findings import Findings
    from gapless_spark.archiving.copy_check.streams import Stream


def compare_by_offset(a: Stream, b: Stream, parts: Sequence[Part], findings: Findings) -> None:
    """Compare all records of two streams."""
    while True:
        a.load()
        b.load()
        if _pass_gap("a", a, b, findings) or _pass_gap("b", b, a, findings):
            continue
        if a.is_ended and b.is_ended:
            return
        bound = min(offset_at(stream.rows, -1) for stream in (a, b) if stream.rows.num_rows)
        bound = min([bound, *(stream.gap.first - 1 for stream in (a, b) if stream.gap is not None)])
        some, others = (stream.take(count_up_to(stream.rows, bound)) for stream in (a, b))
        _compare(some, others, parts, findings)


def _pass_gap(side: Side, stream: Stream, other: Stream, findings: Findings) -> bool:
    """Go on behind a gap when the other copy has come to the same place."""
    gap = stream.gap
    if gap is None or (other.rows.num_rows and offset_at(other.rows, 0) < gap.first):
        return False
    if other.gap is not None and other.gap.first < gap.first:
        return False
    findings.could_not_compare(side, gap)
    other.hide(gap.first, gap.last)
    stream.pass_gap()
    return True


def _compare(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part], findings: Findings) -> None:
    if a.column("offset").equals(b.column("offset")):
        if alike(a, b, parts):
            findings.found_equal(a.num_rows)
        else:
            _compare_some(a.column("offset").to_pylist(), unlike_rows(a, b, parts), findings)
    elif not a.num_rows or not b.num_rows:
        side: Side = "a" if a.num_rows else "b"
        rows = a if a.num_rows else b
        findings.found_only(side, offset_at(rows, 0), offset_at(rows, -1), rows.num_rows)
    else:
        _merge(a, b, parts, findings)


def _compare_some(offsets: Sequence[int], unlike: dict[int, tuple[Part, ...]], findings: Findings) -> None:
    done = 0
    for row, different in unlike.items():
        findings.found_equal(row - done)
        findings.found_different(different, offsets[row], offsets[row])
        done = row + 1
    findings.found_equal(len(offsets) - done)


def _merge(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part], findings: Findings) -> None:
    """Compare rows of which some are in one copy only."""
    offsets_a, offsets_b = a.column("offset").to_pylist(), b.column("offset").to_pylist()
    rows_a = {offset: row for row, offset in enumerate(offsets_a)}
    rows_b = {offset: row for row, offset in enumerate(offsets_b)}
    common = [offset for offset in offsets_a if offset in rows_b]
    unlike = unlike_rows(_chosen(a, rows_a, common), _chosen(b, rows_b, common), parts)
    different = {common[row]: what for row, what in unlike.items()}
    for offset in sorted(rows_a.keys() | rows_b.keys()):
        if offset not in rows_b:
            findings.found_only("a", offset, offset, 1)
        elif offset not in rows_a:
            findings.found_only("b", offset, offset, 1)
        elif offset in different:
            findings.found_different(different[offset], offset, offset)
        else:
            findings.found_equal(1)


def _chosen(rows: pa.RecordBatch, by_offset: Mapping[int, int], offsets: Sequence[int]) -> pa.RecordBatch:
    return rows.take(pa.array([by_offset[offset] for offset in offsets], pa.int64()))
