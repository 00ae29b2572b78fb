"""The head of the audit state, which a run of ``gapless audit`` writes and the next run reads.

Must not know where the state is stored or what it is used for. The head contains its own digest, and the name and the
digest of a file of blocks.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless_api.wire.form import Form, Offset, PartitionNumber, parse_json


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """An offset of a source partition, as event keys name it."""

    topic: str
    partition: PartitionNumber
    offset: Offset | None
    """Null for a source partition that began after the records that were deleted before an audit read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKept:
    """The first remaining records of a partition of which Kafka deleted others before an audit read them."""

    partition: PartitionNumber
    """Of the audited topic."""
    records: int
    """How many were checked."""
    highest: tuple[SourceOffset, ...]
    """The highest offset of each source partition in them."""
    received_before: tuple[SourceOffset, ...] = ()
    """The highest offset of each source partition that audits had read before records were deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of an audited topic, according to its first records, and its unread deleted records."""

    sources: tuple[str, ...] = ()
    """Source topics of its events."""
    scattered: bool = False
    """Whether events are in other partitions than their keys say."""
    expired: tuple[FirstKept, ...] = ()
    """Partitions of which records were deleted before an audit read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopic:
    """How far an audited topic was read."""

    topic: str
    id: str
    """Kafka's ID of the topic, which changes if it is recreated; empty if the brokers have none."""
    next_offsets: tuple[int, ...]
    """By partition: the highest offset that was read, plus one."""
    contents: Contents = Contents()
    leader_epochs: tuple[int, ...] = ()
    """By partition: the leader epoch (KIP-320) at which its log reached the offset; empty if unknown."""


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """Consecutive partition numbers."""

    first: PartitionNumber
    last: PartitionNumber
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTopic:
    """Source partitions of an upstream topic, according to inventories."""

    topic: str
    """As event keys name it."""
    id: str
    """Kafka's ID of the topic."""
    cluster: str
    """Kafka's ID of the upstream cluster."""
    partitions: tuple[PartitionRun, ...]
    """As event keys number them."""


@dataclass(frozen=True, slots=True)
class LogEpoch:
    """The beginning of a leader epoch in an upstream log."""

    epoch: int
    first_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Offsets that identify other events since an upstream log was truncated."""

    first: Offset
    end: Offset
    """Exclusive. What was received from `first` to here before the truncation was found belongs to either log."""
    epoch: int | None
    """The leader epoch of the new log at `first`; null if its inventory had no epochs."""
    inventory: str
    """The ID of the inventory that showed the truncation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLog:
    """The log of a source partition in the newest inventory that an audit has used."""

    topic: str
    """As event keys name it."""
    partition: PartitionNumber
    """As event keys number it."""
    id: str
    """Kafka's ID of the topic; empty if the inventory had none."""
    cluster: str
    """Kafka's ID of the upstream cluster."""
    isolation: str
    """Of the inventory."""
    inventory: str
    """The ID of the inventory."""
    created: str
    """When the inventory was created."""
    first: Offset
    end: Offset
    """Exclusive."""
    epochs: tuple[LogEpoch, ...] = ()
    """Ascending; empty if the inventory had none."""
    truncated: tuple[Truncation, ...] = ()
    """The truncations that audits have found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHead:
    """The head of the audit state."""

    generation: int
    """Number of the version of the state, from 1."""
    written: str
    cluster_id: str
    topics: tuple[ReadTopic, ...]
    records: int
    """Records that all runs have read, including those with foreign keys."""
    upstream: tuple[UpstreamTopic, ...] = ()
    """The upstream topics of the events, as far as known from inventories."""
    upstream_logs: tuple[UpstreamLog, ...] = ()
    """By source partition, as far as known from inventories."""
    blocks_file: str
    blocks_bytes: int
    blocks_sha256: str


AUDIT_STATE = Form("head of the audit state", "gapless_audit_state", 5, StateHead, snake_case=True)


def encode_head(head: StateHead) -> bytes:
    """Encode `head` with its digest."""
    content = AUDIT_STATE.to_json(head)
    return json.dumps({**content, "sha256": _digest(content)}, indent=1).encode("ascii") + b"\n"


def decode_head(text: bytes) -> StateHead:
    """Decode a head.

    Raises:
        WireError: it is damaged, not a head, or has another version.
    """
    try:
        content = parse_json(text.decode("utf-8"))
    except UnicodeDecodeError:
        content = None
    if not isinstance(content, dict):
        raise AUDIT_STATE.refusal(None, "it is not a JSON object")
    sha256 = content.pop("sha256", None)
    head = AUDIT_STATE.from_json(content)
    if sha256 != _digest(content):
        raise AUDIT_STATE.refusal(AUDIT_STATE.version, "it does not match its digest")
    return head


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
