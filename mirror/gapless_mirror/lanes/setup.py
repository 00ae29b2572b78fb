"""The configuration that all lanes of a process share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from gapless_kafka.writing.transactions import ProducerOptions
from gapless_mirror.lanes.limits import Limits, Rates
from gapless_mirror.lanes.provenance import NO_PROVENANCE, Provenance

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.identity import MirrorIdentity
    from gapless_mirror.lanes.records import FlowRecord
    from gapless_mirror.sql.evaluation import Transform


_PROCESS_QUEUE_KIB = 24 * 1024
_PROCESS_TRANSACTION_BYTES = 64 * 1024 * 1024
"""Of all lanes of a process together."""


class OnDataLoss(StrEnum):
    """What happens when source records were deleted before they were copied."""

    FAIL = "fail"
    """The partition stops; the others are copied."""
    SKIP_AND_RECORD = "skip-and-record"
    """The position records the loss, and copying continues after it."""


class OnBadRecord(StrEnum):
    """What happens when the target refuses a record."""

    FAIL = "fail"
    """The partition waits and tries again; the others are copied."""
    SKIP_AND_RECORD = "skip-and-record"
    """The position records the offset, and copying continues after it."""
    PARK = "park"
    """The same, and the record is written to the parking topic."""


class OnTargetLoss(StrEnum):
    """What happens when the target has lost records that were copied."""

    FAIL = "fail"
    """The partition stops; the others are copied."""
    COPY_AGAIN = "copy-again"
    """The position records the loss, and copying starts again at the start of the source log."""


class OnMissingPosition(StrEnum):
    """Where a partition without a position starts whose target has records."""

    FAIL = "fail"
    """Nowhere: the partition stops; the others are copied."""
    START_AT_TARGET = "start-at-target"
    """After the source record whose copy is the last one in the target."""
    COPY_AGAIN = "copy-again"
    """At the start of the source log."""


@dataclass(frozen=True, slots=True)
class LaneMemory:
    """The memory limits of a lane."""

    queue_kib: int = 8 * 1024
    """Of prefetched records."""
    transaction_bytes: int = 16 * 1024 * 1024
    """A transaction of this size is committed."""

    @classmethod
    def of_process(cls, lanes: int) -> Self:
        """Divide the limits of a process among its lanes."""
        limit = cls()
        return cls(
            max(min(_PROCESS_QUEUE_KIB // lanes, limit.queue_kib), 1024),
            max(min(_PROCESS_TRANSACTION_BYTES // lanes, limit.transaction_bytes), 1024 * 1024),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSetup:
    """How lanes copy."""

    identity: MirrorIdentity
    lanes: int
    """Of the mirror, not of the process."""
    source: KafkaConnection
    target: KafkaConnection
    engine: str
    epoch: int
    """Of the run that this process belongs to."""
    producer: ProducerOptions = field(default_factory=ProducerOptions)
    transactional: bool = True
    commit_interval_seconds: float = 0.5
    memory: LaneMemory = LaneMemory()
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    on_bad_record: OnBadRecord = OnBadRecord.FAIL
    parking_topic: str = ""
    """Of the target, for records that are parked; empty without them."""
    on_target_loss: OnTargetLoss = OnTargetLoss.FAIL
    on_missing_position: OnMissingPosition = OnMissingPosition.FAIL
    once: bool = False
    """Whether copying ends at the source offsets that were the ends when the lane started."""
    provenance: Provenance = NO_PROVENANCE
    flow: FlowRecord | None = None
    """Written by the first lane, for other mirrors."""
    transform: Transform | None = None
    """The SQL that is applied to each record, if there is one."""
    limits: Limits = field(default_factory=lambda: Limits(Rates()))
