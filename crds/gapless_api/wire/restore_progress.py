"""The plan line and the progress line of ``gapless restore``, which the operator reads.

Must not know how the numbers are computed.
"""

from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopicLine:
    """What would be restored of one topic."""

    topic: str
    to_topic: str
    topic_id: str
    partitions: PartitionNumber
    records: int
    create: bool
    """Whether the topic would be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlanLine:
    """What would be restored."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    records: int
    bytes: int
    segments: int
    restored_before: int
    """Records that an earlier run has already written."""
    topics: tuple[PlannedTopicLine, ...]
    """At most 100, those with the most records first."""
    topics_omitted: int
    findings: tuple[str, ...]
    """At most 50: what the preflight check of the target found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRangeLine:
    """Offsets of the archived topic that could not be restored."""

    topic: str
    partition: PartitionNumber
    first: Offset
    last: Offset
    """Inclusive."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLine:
    """Progress of a restore; ``planned = restored + remaining``, lost offsets are counted separately."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    state: Literal["restoring", "following", "done"]
    """``following``: all archived records are restored, and the restore waits for more."""
    planned: int
    restored: int
    """Records written, by earlier runs as well."""
    remaining: int
    lost: int
    lost_ranges: tuple[LostRangeLine, ...]
    """At most 100."""
    records_per_second: float
    eta_seconds: float | None
    last_write: str | None
    """RFC 3339; null if nothing was written."""
    waits_for: tuple[str, ...]
    """At most 100: topics, with or without ``region/``, that the archive has nothing of."""


RESTORE_PLAN_LINE = Form("restore plan line", "gaplessRestorePlan", 1, RestorePlanLine, event="restore-plan")
RESTORE_LINE = Form("restore progress line", "gaplessRestoreProgress", 2, RestoreLine, event="restore-progress")
