"""Owns the line with which ``gapless compact`` says what it has done, which the operator reads."""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLine:
    """What a compaction has done."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    segments_before: int
    """Segments that were replaced."""
    segments_after: int
    """Segments that were written in their place."""
    records: int
    """Records in them."""
    bytes: int
    """Bytes of keys, values and headers in them."""
    deleted_objects: int
    """Objects that were deleted: replaced ones after the grace period, and what the retention no longer keeps."""


COMPACTION_LINE = Form("compaction result line", "gaplessCompaction", 1, CompactionLine, event="compaction")
