"""The progress line of commands that read Kafka, which the operator reads.

Must not know when one is written.
"""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLine:
    """Progress of reading."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    command: str
    """Such as ``scan``, ``audit``, ``verify``."""
    offsets: int
    """Number of offsets to read, at least the number of records."""
    read: int
    """Number of offsets that were read or skipped."""
    percent: float
    offsets_per_second: float
    """Average since the start of reading."""
    eta_seconds: float | None
    """Estimated remaining time; null while the rate is 0."""


READING_LINE = Form("reading progress line", "gaplessReading", 1, ReadingLine, event="reading-progress")
