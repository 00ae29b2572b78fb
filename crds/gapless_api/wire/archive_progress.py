"""Owns the line with which ``gapless archive`` says how far it is, which the operator reads.

Must not know when one is written.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from gapless_api.wire.form import AtMost, Form

_MAX_PARTITIONS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopicLine:
    """How far a topic is archived."""

    topic: str
    topic_id: str
    partitions: Annotated[int, AtMost(_MAX_PARTITIONS)]
    segments: int
    covered_up_to: str | None
    """RFC 3339: all records before this time are archived; null while that is unknown."""
    lag_records: int
    """Offsets in Kafka that are not archived yet."""
    lag_seconds: float | None
    """Age of the oldest record that is not archived yet, 0 for none; null while that is unknown."""
    lost_records: int
    """Offsets that Kafka deleted before they were archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveProblem:
    """Why archiving needs a person."""

    reason: Literal["RetentionOvertaking", "RecordsLost", "TopicRecreated", "NoProgress"]
    topic: str
    message: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """How far all chosen topics are archived."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    region: str
    segments: int
    bytes: int
    """Of the segments' objects."""
    records: int
    lag_records: int
    lag_seconds: float | None
    retention_seconds: float | None
    """Estimated seconds until Kafka deletes records that are not archived yet; null when there is nothing to lose."""
    lost_records: int
    last_commit: str | None
    """RFC 3339; null for an archive that is empty."""
    read_by: Literal["spark", "local"] | None
    """What read Kafka last; null when nothing was read."""
    topics: tuple[ArchivedTopicLine, ...]
    """At most 100, those with the most records to archive first."""
    topics_omitted: int
    problems: tuple[ArchiveProblem, ...]
    """At most 20."""


ARCHIVE_LINE = Form("archive progress line", "gaplessArchiveProgress", 1, ArchiveLine, event="archive-progress")
