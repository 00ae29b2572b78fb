"""Owns the report of ``gapless restore``: what was planned or written, to where, and what of it is not there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Offsets that are not restored."""

    first: Offset
    last: Offset
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """One partition of an archived topic."""

    partition: PartitionNumber
    target_partition: PartitionNumber
    records: int
    """Written in this run; in a plan, those that would be written."""
    bytes: int
    """Of these records: 16 for each, its key, value and headers."""
    first: Offset | None
    """The first offset that this run is about; null when nothing is left to do."""
    last: Offset | None
    explained: tuple[MissingRange, ...]
    """Offsets that Kafka had deleted before they were archived."""
    lost: tuple[MissingRange, ...]
    """Offsets that the archive should have and does not have, or cannot read."""
    failure: str
    """Why the partition was not written to its end; empty when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """One archived topic."""

    region: str
    topic: str
    topic_id: str
    target: str
    target_id: str
    """Empty in a plan of a topic that would be created."""
    work: str
    """The identity of the work, in transactional IDs and positions."""
    records: int
    bytes: int
    partitions: tuple[RestoredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFinding:
    """What the preflight has found."""

    refuses: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic that was created, or would be."""

    topic: str
    partitions: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore did, or would do."""

    command: Literal["restore"]
    created: str
    """When it began."""
    plan: bool
    """Whether nothing was to be written."""
    outcome: str
    exit_code: int
    message: str
    written_by: str | None
    """``spark`` or ``local``; null when nothing was written."""
    records: int
    bytes: int
    lost: int
    """Offsets that are not in the archive although they should be, or cannot be read."""
    group_offsets: int
    """Positions of consumer groups that were committed."""
    topics: tuple[RestoredTopic, ...]
    new_topics: tuple[CreatedTopic, ...]
    findings: tuple[RestoreFinding, ...]
    seconds: float


RESTORE_REPORT: Form[RestoreReport] = Form("restore report", "gaplessRestore", 1, RestoreReport, snake_case=True)
