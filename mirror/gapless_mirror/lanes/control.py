"""The control topic of a mirror: its creation, its configuration, and the state of each lane in it.

The owner of a lane reads it right after it has fenced the previous owner, when no transaction of the lane is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_mirror.lanes.control_records import LaneRecords, Span, read_partitions
from gapless_mirror.lanes.records import FlowRecord, LaneMapPart, LanePosition, LayoutRecord, MapTail, RunRecord
from gapless_mirror.lanes.stored import StoredRecord, UnreadableRecord, decode_records

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.target_topics import TargetTopics

_CONFIGURATION = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "CreateTime",
}
_TOPICS_AT_ONCE = 50
"""They are in memory together."""


@dataclass
class LaneState:
    """The state of a lane in the control topic."""

    layout: LayoutRecord | None = None
    """The number of lanes; only in the first lane."""
    run: RunRecord | None = None
    flow: FlowRecord | None = None
    """What the mirror copies; only in the first lane."""
    positions: dict[TopicPartition, LanePosition] = field(default_factory=dict)
    """By source partition."""
    tails: dict[TopicPartition, MapTail] = field(default_factory=dict)
    """The last part of the offset map of a source partition."""
    map_parts: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """The first offsets of the parts of a source partition's offset map, ascending."""
    superseded_parts: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Those of parts that later ones supersede, as earlier releases left them when a source was truncated."""
    unreadable: dict[TopicPartition, list[UnreadableRecord]] = field(default_factory=dict)
    """Records that cannot be read, by source partition; it counts as one without a position."""
    foreign: list[str] = field(default_factory=list)
    """A sentence about each record of another program."""
    open_from: int | None = None
    """The offset of the first transaction that is open; ``None`` for none."""
    mark: int = -1
    """The offset of the mark up to which the lane was read at least; -1 for none."""


def ensure_control_topic(topics: TargetTopics, name: str, lanes: int) -> int:
    """Create the control topic if it does not exist, and return its number of partitions.

    Raises:
        ConfigurationError: the topic's cleanup policy would delete positions.
        SourceUnreachableError: Kafka does not answer, or denies access.
    """
    topic = topics.describe([name]).get(name)
    if topic is None:
        replicas = min(3, topics.cluster().brokers)
        topics.create(name, lanes, _CONFIGURATION, replication_factor=replicas)
        topic = topics.describe([name])[name]
    policy = topic.configuration.get("cleanup.policy", "compact")
    if "delete" in policy.split(","):
        raise ConfigurationError(
            f"The topic {name} has cleanup.policy={policy}, which would delete positions of the mirror; set it to "
            f"compact."
        )
    return topic.partitions


def read_lanes(
    connection: KafkaConnection,
    topic: str,
    lanes: Sequence[int],
    *,
    behind: Mapping[int, int] | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> dict[int, LaneState]:
    """Read the states of `lanes` from the control topic, each up to its first open transaction.

    Args:
        connection: to the target.
        topic: the control topic.
        lanes: their numbers.
        behind: offsets of marks by lane; without one, a former leader may answer (see `mark`).
        pulse: called during each wait; it may raise to cancel the work.

    Raises:
        SourceUnreachableError: Kafka denies access, or does not answer.
        ConfigurationError: a record that concerns a whole lane cannot be read.
    """
    marks = behind or {}
    spans = {lane: Span(0, marks.get(lane, -1)) for lane in lanes}
    records_by_lane = _read(connection, topic, spans, "read_committed", pulse)
    states = {lane: _state_of(read, topic, lane) for lane, read in records_by_lane.items()}
    for lane, state in states.items():
        state.mark = spans[lane].mark
    return states


def read_first_lanes(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float
) -> dict[str, LaneState | GaplessError]:
    """Read the state of the first lane of many mirrors; for each, return it or why it is unknown.

    Args:
        connection: the cluster.
        topics: the control topics; TopicMissingError is the outcome of one that was deleted meanwhile.
        timeout_seconds: limit for waiting without any answer.
    """
    states: dict[str, LaneState | GaplessError] = {}
    for first in range(0, len(topics), _TOPICS_AT_ONCE):
        found = read_partitions(
            connection,
            dict.fromkeys(((topic, 0) for topic in topics[first : first + _TOPICS_AT_ONCE]), Span(0)),
            "read_committed",
            listed_timeout_seconds=timeout_seconds,
        )
        for (topic, lane), read in found.items():
            try:
                states[topic] = read if isinstance(read, GaplessError) else _state_of(read, topic, lane)
            except GaplessError as error:
                states[topic] = error
    return states


def _state_of(read: LaneRecords, topic: str, lane: int) -> LaneState:
    state = lane_state(read.records, topic, lane)
    state.open_from = read.open_from
    return state


def unreadable_record(topic: str, error: Exception) -> ConfigurationError:
    """Return the error for a record of a control topic that cannot be read."""
    return ConfigurationError(
        f"A record of the topic {topic} cannot be read ({error}); run the same release everywhere, or give the mirror "
        f"another name."
    )


def read_lane_records(
    connection: KafkaConnection, topic: str, lanes: Sequence[int], *, pulse: Callable[[], None] = lambda: None
) -> dict[int, LaneRecords]:
    """Read the records of `lanes`. Raises SourceUnreachableError like `read_lanes`."""
    return _read(connection, topic, dict.fromkeys(lanes, Span(0)), "read_committed", pulse)


def read_open_records(
    connection: KafkaConnection,
    topic: str,
    lane: int,
    span: Span,
    *,
    pulse: Callable[[], None] = lambda: None,
) -> list[StoredRecord]:
    """Read the records of a lane, including open and aborted transactions.

    Args:
        connection: to the target.
        topic: the control topic.
        lane: its number.
        span: what to read.
        pulse: called during each wait; it may raise to cancel the work.

    Raises:
        SourceUnreachableError: Kafka denies access, or does not answer.
    """
    return _read(connection, topic, {lane: span}, "read_uncommitted", pulse)[lane].records


def _read(
    connection: KafkaConnection, topic: str, spans: Mapping[int, Span], isolation: str, pulse: Callable[[], None]
) -> dict[int, LaneRecords]:
    # From offset 0: the client looks up OFFSET_BEGINNING half a second after it has connected.
    spans_by_partition = {(topic, lane): span for lane, span in spans.items()}
    records: dict[int, LaneRecords] = {}
    for (_, lane), read in read_partitions(connection, spans_by_partition, isolation, pulse=pulse).items():
        if isinstance(read, GaplessError):
            raise read
        records[lane] = read
    return records


def lane_state(records: Iterable[StoredRecord], topic: str, lane: int) -> LaneState:
    """Build the state of a lane from its records in offset order.

    Args:
        records: of the lane.
        topic: the control topic, for messages.
        lane: its partition.

    Raises:
        ConfigurationError: a record that concerns the whole lane cannot be read.
    """
    decoded = decode_records(topic, lane, records)
    state = LaneState(unreadable=decoded.unreadable, foreign=decoded.foreign)
    last_parts: dict[TopicPartition, LaneMapPart] = {}
    for lane_key, message in decoded.records:
        topic_partition = (lane_key.source, lane_key.partition)
        if lane_key.kind == "layout":
            state.layout = message
        elif lane_key.kind == "run":
            state.run = message
        elif lane_key.kind == "flow":
            state.flow = message
        elif lane_key.kind == "position":
            state.positions[topic_partition] = message
        else:
            parts = state.map_parts.setdefault(topic_partition, [])
            while parts and parts[-1] >= lane_key.first_offset:
                state.superseded_parts.setdefault(topic_partition, []).append(parts.pop())
            parts.append(lane_key.first_offset)
            last_parts[topic_partition] = message
    state.tails = {topic_partition: MapTail.of(part) for topic_partition, part in last_parts.items()}
    for topic_partition, unreadable in decoded.unreadable.items():
        state.positions.pop(topic_partition, None)
        state.tails.pop(topic_partition, None)
        parts = state.superseded_parts.setdefault(topic_partition, [])
        parts += state.map_parts.pop(topic_partition, [])
        parts += [record.map_part for record in unreadable if record.map_part is not None]
    return state
