"""The report of ``gapless restore``: what was planned or written, where to, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Offsets that were not restored."""

    first: Offset
    last: Offset
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """One partition of an archived topic."""

    partition: PartitionNumber
    target_partition: PartitionNumber
    records: int
    """Records that this run wrote, or would write if it is a plan."""
    bytes: int
    """Size of these records: keys, values, headers, and 16 bytes for each record."""
    first: Offset | None
    """The first offset of this run; null if nothing remains to be done."""
    last: Offset | None
    explained: tuple[MissingRange, ...]
    """Offsets that Kafka deleted before they were archived."""
    lost: tuple[MissingRange, ...]
    """Offsets that are unexpectedly missing from the archive, or cannot be read."""
    refused: tuple[MissingRange, ...]
    """Records that the target refused and that were skipped by request, by earlier runs as well."""
    stopped_at: Offset | None
    """The offset of the record that could not be written, before which the partition stopped."""
    failure: str
    """Why the partition is incomplete; empty if it is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """One archived topic."""

    region: str
    topic: str
    topic_id: str
    target: str
    target_id: str
    """Empty in a plan if the topic would be created."""
    work: str
    """The identity of the work in transactional IDs and positions."""
    records: int
    bytes: int
    partitions: tuple[RestoredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFinding:
    """A finding of the preflight check."""

    refuses: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic that was created, or would be created."""

    topic: str
    partitions: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The result of a restore, or of a plan."""

    command: Literal["restore"]
    created: str
    """The start time."""
    plan: bool
    """Whether it is a plan, which writes nothing."""
    outcome: str
    exit_code: int
    message: str
    written_by: str | None
    """``spark`` or ``local``; null if nothing was written."""
    records: int
    bytes: int
    lost: int
    """The number of offsets that are unexpectedly missing from the archive, or cannot be read."""
    refused: int
    """The number of records that the target refused and that were skipped by request."""
    group_offsets: int
    """Committed offsets of consumer groups that were restored."""
    topics: tuple[RestoredTopic, ...]
    new_topics: tuple[CreatedTopic, ...]
    findings: tuple[RestoreFinding, ...]
    seconds: float


RESTORE_REPORT: Form[RestoreReport] = Form("restore report", "gaplessRestore", 2, RestoreReport, snake_case=True)
