"""The result line of ``gapless compact``, which the operator reads."""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLine:
    """The result of a compaction."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    segments_before: int
    """Segments that were replaced."""
    segments_after: int
    """Segments that replaced them."""
    records: int
    """Records in the new segments."""
    bytes: int
    """Bytes of keys, values and headers in the new segments."""
    deleted_objects: int
    """Objects that were deleted: replaced ones after the grace period, and those beyond the retention."""


COMPACTION_LINE = Form("compaction result line", "gaplessCompaction", 1, CompactionLine, event="compaction")
