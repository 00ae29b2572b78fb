"""The observable state of a lane: frozen observations for status, metrics and stall detection.

Times with the suffix ``_at`` are seconds of the monotonic clock of the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC


class LanePhase(StrEnum):
    """What a lane is doing."""

    OPENING = "opening"
    """It fences the previous owner and reads the positions."""
    COPYING = "copying"
    RETRYING = "retrying"
    """It failed, and reopens after a pause."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenError:
    """An error, and when it last occurred."""

    message: str
    """One sentence."""
    name: str
    """The error name in Kafka's client, such as NOT_COORDINATOR; empty for other errors."""
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a partition or a lane is no longer copied; others are not affected."""

    reason: str
    """A stall reason, such as RetentionOvertook."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservation:
    """The state of one source partition."""

    topic: str
    partition: int
    target: str
    source_id: str
    position: int
    """The source offset after the last committed one."""
    end_seen: int | None
    """The last stable offset when the reader last reached it; ``None`` for never."""
    progressed_at: float
    """When records were last committed or the reader reached the end; at first, when the lane got the partition."""
    records: int
    """Written since this process acquired the lane."""
    bytes: int
    lost: int
    """Offsets that were skipped by request, in total."""
    newest_ms: int | None = None
    """The timestamp of the last record that this process committed; ``None`` for no record, or no timestamp."""
    lost_now: int = 0
    """Offsets that this process has skipped."""
    returned: int = 0
    """Records that were left out because they came from the target, since this process acquired the lane."""
    has_copies: bool = False
    """Whether the target has, or had, copies."""
    error: SeenError | None = None
    """The last error of reading."""
    stop: Stop | None = None


class CopiedTotals(NamedTuple):
    """Copied records, and the bytes of their keys and values."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneObservation:
    """The state of a lane that this process owns."""

    lane: int
    phase: LanePhase
    tick_at: float
    """When the lane's thread was last active."""
    transaction_since: float | None
    """When the open transaction began."""
    committed_at: float | None
    """When a transaction was last committed."""
    records: int
    """Written since this process acquired the lane, including heartbeats."""
    bytes: int
    error: SeenError | None
    """The last error that concerns no single partition."""
    needs_refresh: bool = False
    """Whether a source topic has changed, so that the source must be refreshed soon."""
    limited_at: float | None = None
    """When the lane last waited because of rate limits."""
    stop: Stop | None = None
    """Why a run with ``once`` no longer copies the lane."""
    partitions: tuple[PartitionObservation, ...] = ()

    @property
    def stops(self) -> tuple[Stop, ...]:
        """Why the lane, and partitions of it, are no longer copied."""
        stops = (self.stop, *(partition.stop for partition in self.partitions))
        return tuple(stop for stop in stops if stop is not None)

    @property
    def copied(self) -> CopiedTotals:
        """Totals since this process acquired the lane, without heartbeats."""
        heartbeats = [partition for partition in self.partitions if partition.topic == HEARTBEAT_TOPIC]
        return CopiedTotals(
            self.records - sum(partition.records for partition in heartbeats),
            self.bytes - sum(partition.bytes for partition in heartbeats),
        )
