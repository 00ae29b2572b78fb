"""The comparison of two copies with the same offsets: records are merged by offset.

Must not know where the records come from. A gap in one copy hides the same offsets of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless_spark.archiving.verify_copy.compaction import hash_key
from gapless_spark.archiving.verify_copy.parts import different_rows, rows_equal
from gapless_spark.archiving.verify_copy.streams import Stream, count_up_to, offset_at

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import Part, Side
    from gapless_spark.archiving.verify_copy.findings import Findings


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
        rows_a, rows_b = (stream.take(count_up_to(stream.rows, bound)) for stream in (a, b))
        _compare(rows_a, rows_b, parts, findings)


def _pass_gap(side: Side, stream: Stream, other: Stream, findings: Findings) -> bool:
    """Skip a gap once the other copy has reached the same offset."""
    gap = stream.gap
    if gap is None or (other.rows.num_rows and offset_at(other.rows, 0) < gap.first):
        return False
    if other.gap is not None and other.gap.first < gap.first:
        return False
    findings.add_not_compared(side, gap)
    other.hide(gap.first, gap.last)
    stream.pass_gap()
    return True


def _compare(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part], findings: Findings) -> None:
    if a.column("offset").equals(b.column("offset")):
        if rows_equal(a, b, parts):
            findings.add_equal(a.num_rows)
        else:
            _add_rows(a.column("offset").to_pylist(), different_rows(a, b, parts), findings)
    elif not a.num_rows or not b.num_rows:
        side: Side = "a" if a.num_rows else "b"
        rows = a if a.num_rows else b
        keys = _hashes(rows) if findings.absences is not None else []
        findings.add_absent(side, rows.column("offset").to_pylist(), keys)
    else:
        _merge(a, b, parts, findings)


def _add_rows(offsets: Sequence[int], unlike: dict[int, tuple[Part, ...]], findings: Findings) -> None:
    done = 0
    for row, different in unlike.items():
        findings.add_equal(row - done)
        findings.add_different(different, offsets[row], offsets[row])
        done = row + 1
    findings.add_equal(len(offsets) - done)


def _merge(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part], findings: Findings) -> None:
    """Compare rows with different offsets, of which some are only in one copy."""
    offsets_a, offsets_b = a.column("offset").to_pylist(), b.column("offset").to_pylist()
    rows_a = {offset: row for row, offset in enumerate(offsets_a)}
    rows_b = {offset: row for row, offset in enumerate(offsets_b)}
    common = [offset for offset in offsets_a if offset in rows_b]
    unlike = different_rows(_select_rows(a, rows_a, common), _select_rows(b, rows_b, common), parts)
    different = {common[row]: parts_of_row for row, parts_of_row in unlike.items()}
    for offset in sorted(rows_a.keys() | rows_b.keys()):
        if offset not in rows_b:
            findings.add_absent("a", [offset], _hashes(a.slice(rows_a[offset], 1)))
        elif offset not in rows_a:
            findings.add_absent("b", [offset], _hashes(b.slice(rows_b[offset], 1)))
        elif offset in different:
            findings.add_different(different[offset], offset, offset)
        else:
            findings.add_equal(1)


def _hashes(rows: pa.RecordBatch) -> list[bytes | None]:
    return [None if key is None else hash_key(key) for key in rows.column("key").to_pylist()]


def _select_rows(rows: pa.RecordBatch, by_offset: Mapping[int, int], offsets: Sequence[int]) -> pa.RecordBatch:
    return rows.take(pa.array([by_offset[offset] for offset in offsets], pa.int64()))
