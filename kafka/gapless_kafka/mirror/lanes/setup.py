"""Owns what all lanes of a process have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from gapless_kafka.mirror.lanes.limits import Limits, Rates
from gapless_kafka.mirror.lanes.provenance import NOT_LOOKED_AT, Provenance
from gapless_kafka.writing.transactions import ProducerOptions

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.identity import MirrorIdentity
    from gapless_kafka.mirror.lanes.records import FlowRecord


_FETCHED_KIB = 24 * 1024
_TRANSACTIONS_BYTES = 64 * 1024 * 1024
"""Of all lanes of a process together."""


class OnDataLoss(StrEnum):
    """What happens when source records are gone before they were copied."""

    FAIL = "fail"
    """The partition stops; the rest goes on."""
    SKIP_AND_RECORD = "skip-and-record"
    """The position records what is lost, and copying continues behind it."""


@dataclass(frozen=True, slots=True)
class LaneMemory:
    """What a lane may hold in memory."""

    queue_kib: int = 8 * 1024
    """Fetched ahead."""
    transaction_bytes: int = 16 * 1024 * 1024
    """A transaction is committed when it holds so much."""

    @classmethod
    def of_process(cls, lanes: int) -> Self:
        """The part of each of some lanes in what a process may hold."""
        most = cls()
        return cls(
            max(min(_FETCHED_KIB // lanes, most.queue_kib), 1024),
            max(min(_TRANSACTIONS_BYTES // lanes, most.transaction_bytes), 1024 * 1024),
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
    reports_all: bool = False
    """Whether each record is reported, because others write to the same partitions."""
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    once: bool = False
    """Whether copying ends at the ends that the source had when the lane began."""
    provenance: Provenance = NOT_LOOKED_AT
    """What happens to the header that says where a record came from."""
    flow: FlowRecord | None = None
    """What the first lane tells other mirrors."""
    limits: Limits = field(default_factory=lambda: Limits(Rates()))
