"""Owns the plan of ``gapless resend --plan``: the complete one, a file, and the short one, a log line.

Must not know how the numbers are computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from gapless_api.wire.form import Flat, Form, Offset, PartitionNumber
from gapless_api.wire.resend_report import ReadBundle, SkippedEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated size and duration of the resend, from a few records."""

    mean_event_bytes: float
    datagrams: int
    payload_bytes: int
    seconds: float | None
    """Null if no rate is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """The events of one partition that would be sent."""

    topic: str
    """As the downstream side names it."""
    partition: PartitionNumber
    upstream_topic: str
    upstream_partition: PartitionNumber
    events: int
    from_archive: int
    """Of `events`, those that only the archive still has."""
    ranges: int
    first_offset: Offset | None
    last_offset: Offset | None
    """Inclusive."""
    expired: int
    """Neither in Kafka nor in the archive."""
    not_yet_written: int
    sent_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendPlan:
    """All events that would be sent."""

    shard: int
    shards: int
    mode: str
    """bundle, offsets or time."""
    bundle: ReadBundle | None
    events: int
    """Events that would be sent."""
    from_kafka: int
    """Of `events`, those that Kafka has."""
    from_archive: int
    """Of `events`, those that only the archive still has."""
    ranges: int
    sent_before: int
    unavailable: Mapping[str, int]
    """Planned events that cannot be sent, by reason."""
    outside_time_range: int
    """Requested events that the time range leaves out."""
    estimate: Estimate
    note: str
    skipped: tuple[SkippedEntry, ...]
    partitions: tuple[PlannedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortPlan:
    """The plan with shortened lists; partitions with the most unavailable events first."""

    plan: Annotated[ResendPlan, Flat]
    skipped_omitted: int
    partitions_omitted: int


RESEND_PLAN = Form("resend plan", "gaplessPlan", 4, ResendPlan, kind="full")
SHORT_PLAN = Form("resend plan", "gaplessPlan", 4, ShortPlan, event="plan", kind="short")
