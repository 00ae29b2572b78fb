"""Entries of segments in a chain of an archive, of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

from gapless_archive.catalog.entry import Segment

_OF_AN_EMPTY_ONE: dict[str, Any] = {
    "object": "r/t/ID/level-0/00000001-aa.parquet",
    "partition": 0,
    "level": 0,
    "first": 0,
    "end": 0,
    "absent": "",
    "records": 0,
    "bytes": 0,
    "stored_bytes": 0,
    "min_timestamp": None,
    "max_timestamp": None,
    "digest": "",
    "isolation": "read_committed",
    "log_start": 0,
    "high_watermark": 0,
    "epoch": 1,
    "codec": "zstd",
    "layout": "gapless",
    "written_at": "2026-11-22T10:00:00Z",
    "row_groups": (),
}


def segment_with(**fields: Any) -> Segment:
    """Return a segment with these fields; the others are those of one without records."""
    return Segment(**(_OF_AN_EMPTY_ONE | fields))
