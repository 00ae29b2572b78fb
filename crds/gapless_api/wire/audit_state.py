"""Owns the head of an audit's state, which one run of ``gapless audit`` writes and the next one reads.

Must not know where a state is kept or what follows from it. The head carries its own digest; it names one file of
blocks, whose digest is in the head.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless_api.wire.form import Form, Offset, PartitionNumber, WireError, parse_json


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """An offset of a source partition, as events' keys name it."""

    topic: str
    partition: PartitionNumber
    offset: Offset | None
    """Null for a source partition that began after the records that were deleted unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKept:
    """The first records that Kafka has kept of a partition of which others were deleted before an audit read them."""

    partition: PartitionNumber
    """Of the topic that is audited."""
    records: int
    """How many were looked at."""
    highest: tuple[SourceOffset, ...]
    """The highest offset that they show of each source partition."""
    received_before: tuple[SourceOffset, ...] = ()
    """The highest offset of each source partition that audits had read before the others were deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a topic that is audited holds, as far as its first records show, and where some were deleted unread."""

    sources: tuple[str, ...] = ()
    """Topics of the events in it."""
    scattered: bool = False
    """Whether events stand in other partitions than those that their keys name."""
    expired: tuple[FirstKept, ...] = ()
    """The partitions of which records were deleted before an audit read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopic:
    """How far a topic has been read."""

    topic: str
    id: str
    """Kafka's own for the topic, another one when it is recreated; empty where brokers have none."""
    next_offsets: tuple[int, ...]
    """By partition: one more than the highest offset that was read."""
    contents: Contents = Contents()
    """What its first records show, and where some were deleted unread."""


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """Partitions with numbers one after the other."""

    first: PartitionNumber
    last: PartitionNumber
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTopic:
    """Source partitions of one topic on the sending side, as inventories have named it."""

    topic: str
    """As the events' keys name it."""
    id: str
    """Kafka's own for the topic."""
    cluster: str
    """Kafka's own id of the upstream cluster."""
    partitions: tuple[PartitionRun, ...]
    """As keys number them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHead:
    """What a state begins with."""

    generation: int
    """How often the state was written, from 1."""
    written: str
    cluster_id: str
    topics: tuple[ReadTopic, ...]
    records: int
    """All that were read, over all runs, foreign keys among them."""
    upstream: tuple[UpstreamTopic, ...] = ()
    """Which upstream topics the events are of, as far as inventories tell."""
    blocks_file: str
    blocks_bytes: int
    blocks_sha256: str


AUDIT_STATE = Form("head of the audit state", "gapless_audit_state", 3, StateHead, snake_case=True)
"""Versions 1 and 2 named it ``kind`` and ``version``; they are read, too. Version 2 lacked ``received_before``, version
1 also ``contents`` and ``upstream``."""
_KIND_BEFORE, _VERSIONS_BEFORE = "gapless-audit-state", (1, 2)


def encode_head(head: StateHead) -> bytes:
    """Write `head` with its digest."""
    content = AUDIT_STATE.to_json(head)
    return json.dumps({**content, "sha256": _digest(content)}, indent=1).encode("ascii") + b"\n"


def decode_head(text: bytes) -> StateHead:
    """Read a head.

    Raises:
        WireError: it is damaged, something else, or of another version.
    """
    try:
        content = parse_json(text.decode("utf-8"))
    except UnicodeDecodeError:
        content = None
    if not isinstance(content, dict):
        raise AUDIT_STATE.refusal(None, "it is no JSON object")
    claimed = content.pop("sha256", None)
    if content.get("kind") == _KIND_BEFORE and AUDIT_STATE.marker not in content:
        version = content.pop("version", None)
        del content["kind"]
        if version not in _VERSIONS_BEFORE:
            raise AUDIT_STATE.refusal(version, "use programs of one release")
        if claimed != _digest(content):
            raise AUDIT_STATE.refusal(version, "it does not match its digest")
        return AUDIT_STATE.from_json(_upgraded(content))
    head = AUDIT_STATE.from_json(content)
    if claimed != _digest(content):
        raise AUDIT_STATE.refusal(AUDIT_STATE.version, "it does not match its digest")
    return head


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """The members of version 3 of those of an earlier one. Raises WireError."""
    try:
        return {
            AUDIT_STATE.marker: AUDIT_STATE.version,
            **content,
            "topics": [_upgraded_topic(topic) for topic in content["topics"]],
            "upstream": [
                {**one, "partitions": [{"first": first, "last": last} for first, last in one["partitions"]]}
                for one in content.get("upstream", ())
            ],
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WireError(f"the {AUDIT_STATE.title} is damaged: it lacks what belongs there") from None


def _upgraded_topic(topic: dict[str, Any]) -> dict[str, Any]:
    contents = topic.get("contents", {"sources": [], "scattered": False, "expired": []})
    expired = [
        {
            **kept,
            "highest": [
                {"topic": name, "partition": partition, "offset": None if offset < 0 else offset}
                for name, partition, offset in kept["highest"]
            ],
            "received_before": [],
        }
        for kept in contents["expired"]
    ]
    return {**topic, "contents": {**contents, "expired": expired}}
