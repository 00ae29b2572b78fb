"""The plan of ``gapless resend --plan``: the complete one, a file, and the short one, a log line.

Must not know how the numbers are computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from gapless_api.base.quantities import duration_text
from gapless_api.codec.canonical import moment_text
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


class Retention(StrEnum):
    """What Kafka's retention does with planned events; of several partitions, the last in this order counts."""

    UNLIMITED = "Unlimited"
    """Deletes none of them, or Kafka has none of them."""
    BY_TIME = "ByTime"
    """Deletes them by their age, from `expires_from_ms` on."""
    BY_SIZE = "BySize"
    """Deletes them when newer records need the space, at any time; by their age, too, if `expires_from_ms` is known."""
    UNKNOWN = "Unknown"
    """The configuration of the topic or the timestamp of the event could not be read."""


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
    first_event_ms: int | None
    """Timestamp of the first planned event that Kafka has, in milliseconds since 1970."""
    expires_from_ms: int | None
    """When Kafka's retention may delete that event by its age, in milliseconds since 1970; null if it does not."""
    retention: Retention


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
    first_event_ms: int | None
    """The earliest of all partitions."""
    expires_from_ms: int | None
    """The earliest of all partitions."""
    retention: Retention
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


RESEND_PLAN = Form("resend plan", "gaplessPlan", 5, ResendPlan, kind="full")
SHORT_PLAN = Form("resend plan", "gaplessPlan", 5, ShortPlan, event="plan", kind="short")


def retention_text(plan: ResendPlan, *, now: datetime | None = None) -> str:
    """Say in one sentence until when Kafka keeps the events of a `plan`.

    Args:
        plan: of which Kafka has events.
        now: the time, for a sentence that is read at once: it then also says how long that is.
    """
    expires = None if plan.expires_from_ms is None else moment_of_ms(plan.expires_from_ms)
    when = ""
    if expires is not None:
        when = f"from {moment_text(expires)} on"
        if now is not None:
            left = (expires - now).total_seconds()
            when = f"{when}, in {duration_text(left)}" if left > 0 else f"now, since {moment_text(expires)}"
    match plan.retention:
        case Retention.UNLIMITED:
            return "Kafka's retention deletes none of those that Kafka has."
        case Retention.BY_TIME:
            return f"Kafka's retention may delete the first of them {when}."
        case Retention.BY_SIZE:
            by_age = f", and by age {when}" if when else ""
            return f"Kafka's retention may delete the first of them by size at any time{by_age}."
    known = f"; of the others, it may delete the first {when}" if when else ""
    return f"How long Kafka keeps some of them is not known{known}."


def times_text(plan: ResendPlan, *, now: datetime | None = None) -> str:
    """Say how old the events of a `plan` are, and until when Kafka keeps them: `oldest_text` and `retention_text`."""
    return f"{oldest_text(plan, now=now)} {retention_text(plan, now=now)}".lstrip()


def oldest_text(plan: ResendPlan, *, now: datetime | None = None) -> str:
    """Say in one sentence from when the oldest event of a `plan` is that Kafka has; empty if that is not known.

    Args:
        plan: the events.
        now: the time, for a sentence that is read at once: it then also says how old that event is.
    """
    if plan.first_event_ms is None:
        return ""
    written = moment_of_ms(plan.first_event_ms)
    age = (now - written).total_seconds() if now is not None else 0.0
    return (
        f"The oldest of them in Kafka is of {moment_text(written)}{f', {duration_text(age)} old' if age > 0 else ''}."
    )


def moment_of_ms(milliseconds: int) -> datetime:
    """Return the time of a timestamp in milliseconds since 1970; the end of the calendar if it is later."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)
