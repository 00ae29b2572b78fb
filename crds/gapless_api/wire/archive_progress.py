"""The progress line of ``gapless archive``, which the operator reads.

Must not know when one is written.
"""

from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopicLine:
    """Progress of a topic."""

    topic: str
    topic_id: str
    partitions: PartitionNumber
    segments: int
    covered_up_to: str | None
    """RFC 3339: all records before this time are archived; null while unknown."""
    lag_records: int
    """Offsets in Kafka that are not archived yet."""
    lag_seconds: float | None
    """Age of the oldest record that is not archived yet, 0 for none; null while unknown."""
    lost_records: int
    """Offsets that Kafka deleted before they were archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveProblem:
    """A problem that a person must solve."""

    reason: Literal["RetentionOvertaking", "RecordsLost", "TopicRecreated", "LogTruncated", "NoProgress"]
    topic: str
    message: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """Progress of all selected topics."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    region: str
    segments: int
    bytes: int
    """Size of the segments' objects."""
    records: int
    lag_records: int
    lag_seconds: float | None
    retention_seconds: float | None
    """Estimated seconds until Kafka deletes records that are not archived yet; null if none is at risk."""
    lost_records: int
    last_commit: str | None
    """RFC 3339; null for an empty archive."""
    read_by: Literal["spark", "local"] | None
    """The engine that read Kafka last; null if nothing was read."""
    topics: tuple[ArchivedTopicLine, ...]
    """At most 100, those with the most records to archive first."""
    topics_omitted: int
    problems: tuple[ArchiveProblem, ...]
    """At most 20."""


ARCHIVE_LINE = Form("archive progress line", "gaplessArchiveProgress", 1, ArchiveLine, event="archive-progress")
