"""Owns the line with which a command that reads Kafka says how far it is, which the operator reads.

Must not know when one is written.
"""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLine:
    """How much has been read of what a command reads."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    command: str
    """Such as ``scan``, ``audit``, ``verify``."""
    offsets: int
    """How many are to be read; there are not more records than that."""
    read: int
    """How many of them have been read or passed."""
    percent: float
    offsets_per_second: float
    """Mean since reading began."""
    eta_seconds: float | None
    """Estimated time that is left; null while the speed is 0."""


READING_LINE = Form("reading progress line", "gaplessReading", 1, ReadingLine, event="reading-progress")
