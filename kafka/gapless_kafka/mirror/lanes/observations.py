"""Owns what can be seen of a lane from outside while it works: frozen observations, for status, metrics and stalls.

Times with the suffix ``_at`` are seconds of the monotonic clock of the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC


class LanePhase(StrEnum):
    """What a lane is at."""

    OPENING = "opening"
    """It fences the former owner and reads the positions."""
    COPYING = "copying"
    RETRYING = "retrying"
    """It failed, and opens again after a pause."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenError:
    """An error, when it was seen last."""

    message: str
    """One sentence."""
    name: str
    """Of Kafka's client, such as NOT_COORDINATOR; empty when it is none of Kafka's."""
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a partition is not copied any further, while the rest of the lane goes on."""

    reason: str
    """RetentionOvertook, TopicRecreated or TargetRefuses."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservation:
    """One source partition."""

    topic: str
    partition: int
    target: str
    source_id: str
    position: int
    """The source offset after the last one that is committed."""
    end_seen: int | None
    """The end of what can be read, when the reader was there last; ``None`` for never."""
    progressed_at: float
    """When records were committed last, or the reader was at the end; at first when the partition was taken."""
    records: int
    """Written since the process has the lane."""
    bytes: int
    lost: int
    """Offsets that were skipped by request, in all."""
    newest_ms: int | None = None
    """The timestamp of the last record that was committed; ``None`` for none by this process, or for no timestamp."""
    lost_now: int = 0
    """Those of them that this process has skipped."""
    returned: int = 0
    """Records that came from the target and were left out, since the process has the lane."""
    error: SeenError | None = None
    """Of reading it."""
    stop: Stop | None = None


class Copied(NamedTuple):
    """Records, and the bytes of their keys and values."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneObservation:
    """One lane that this process owns."""

    lane: int
    phase: LanePhase
    tick_at: float
    """When the lane's thread showed a sign of life last."""
    transaction_since: float | None
    """When the transaction that is open began."""
    committed_at: float | None
    """When a transaction was committed last."""
    records: int
    """Written since this process has the lane, of all its partitions."""
    bytes: int
    error: SeenError | None
    """Of writing, or of the lane as such."""
    awaits_view: bool = False
    """Whether a topic of the source has changed, so that it is to be looked at soon."""
    limited_at: float | None = None
    """When the lane waited last because of the limits of its process."""
    partitions: tuple[PartitionObservation, ...] = ()

    @property
    def copied(self) -> Copied:
        """What was written since this process has the lane, without heartbeats."""
        beats = [one for one in self.partitions if one.topic == HEARTBEAT_TOPIC]
        return Copied(self.records - sum(one.records for one in beats), self.bytes - sum(one.bytes for one in beats))
