"""Owns the control topic of a mirror: that it exists as it must, and what it holds of a lane.

The owner of a lane reads it right after it has fenced the former one: no transaction of the lane is open then, and what
was committed is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.form import WireError
from gapless_kafka.access.errors import TRANSIENT, fault_of, reason_in
from gapless_kafka.access.stall_clock import StallClock
from gapless_kafka.mirror.lanes.records import MapTail, read_record
from gapless_kafka.writing.positions import latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.records import FlowRecord, LaneMapPart, LanePosition, RunRecord
    from gapless_kafka.topics.target_topics import TargetTopics

_CONFIGURATION = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "CreateTime",
}
_AT_ONCE = 1000
_WAIT_SECONDS = 0.1


@dataclass
class LaneState:
    """What the control topic holds of a lane."""

    run: RunRecord | None = None
    flow: FlowRecord | None = None
    """What the mirror copies; in the first lane."""
    positions: dict[TopicPartition, LanePosition] = field(default_factory=dict)
    """By source partition."""
    tails: dict[TopicPartition, MapTail] = field(default_factory=dict)
    """The last part of the offset map of a source partition."""
    map_parts: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """The first offsets of the parts of a source partition's offset map, ascending."""
    open_from: int | None = None
    """The offset of the first transaction that is open; ``None`` for none."""


class LaneRecords(NamedTuple):
    """What was read of a lane of the control topic."""

    records: list[tuple[Any, Any]]
    """Keys and values, in their order."""
    open_from: int | None
    """The offset of the first transaction that is open; ``None`` for none."""


def ensure_control_topic(topics: TargetTopics, name: str, lanes: int) -> int:
    """Create the control topic if there is none, and return its number of lanes.

    Raises:
        ConfigurationError: a topic of that name cannot keep positions.
        SourceUnreachableError: Kafka does not answer, or denies it.
    """
    found = topics.describe([name]).get(name)
    if found is None:
        copies = min(3, topics.cluster().brokers)
        topics.create(name, lanes, _CONFIGURATION, replication_factor=copies)
        found = topics.describe([name])[name]
    policy = found.configuration.get("cleanup.policy", "compact")
    if "delete" in policy.split(","):
        raise ConfigurationError(
            f"The topic {name} has cleanup.policy={policy}, which would delete positions of the mirror; set it to "
            f"compact."
        )
    return found.partitions


def read_lanes(
    connection: KafkaConnection, topic: str, lanes: Sequence[int], *, pulse: Callable[[], None] = lambda: None
) -> dict[int, LaneState]:
    """Read what the control topic holds of some lanes, up to the first open transaction of each.

    Raises:
        SourceUnreachableError: Kafka denies it, or does not answer.
        ConfigurationError: a record cannot be read.
    """
    found = read_lane_records(connection, topic, lanes, pulse=pulse)
    try:
        states = {lane: lane_state(read.records) for lane, read in found.items()}
    except (WireError, ValueError) as error:
        raise unreadable_record(topic, error) from None
    for lane, read in found.items():
        states[lane].open_from = read.open_from
    return states


def unreadable_record(topic: str, error: Exception) -> ConfigurationError:
    """The error for a record of a control topic that cannot be read."""
    return ConfigurationError(
        f"A record of the topic {topic} cannot be read ({error}); use programs of one release, or give the mirror "
        f"another name."
    )


def read_lane_records(
    connection: KafkaConnection, topic: str, lanes: Sequence[int], *, pulse: Callable[[], None] = lambda: None
) -> dict[int, LaneRecords]:
    """Read the keys and values of some lanes. Raises SourceUnreachableError like `read_lanes`."""
    # From offset 0, and not from "the beginning": the client looks that up, half a second after it has connected.
    return _read(connection, topic, dict.fromkeys(lanes, 0), "read_committed", pulse)


def read_open_records(
    connection: KafkaConnection, topic: str, lane: int, first: int, *, pulse: Callable[[], None] = lambda: None
) -> list[tuple[Any, Any]]:
    """Read the keys and values of a lane from an offset on, of transactions that are open or aborted, too.

    Raises:
        SourceUnreachableError: Kafka denies it, or does not answer.
    """
    return _read(connection, topic, {lane: first}, "read_uncommitted", pulse)[lane].records


def _read(
    connection: KafkaConnection, topic: str, offsets: Mapping[int, int], isolation: str, pulse: Callable[[], None]
) -> dict[int, LaneRecords]:
    consumer = Consumer(
        {
            **connection.librdkafka_options(),
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 8_192,
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 50,
            "log_level": 0,
        }
    )
    found: dict[int, list[tuple[Any, Any]]] = {lane: [] for lane in offsets}
    open_from: dict[int, int | None] = {}
    clock = StallClock()
    complaint = ""
    try:
        consumer.assign([KafkaPartition(topic, lane, offset) for lane, offset in offsets.items()])
        while open_from.keys() != offsets.keys():
            pulse()
            clock.start_wait()
            messages = consumer.consume(_AT_ONCE, _WAIT_SECONDS)
            clock.end_wait(progress=bool(messages))
            for message in messages:
                error, lane = message.error(), message.partition()
                if error is None:
                    found[lane].append((message.key(), message.value()))
                elif error.name() == "_PARTITION_EOF":
                    # The end of what can be read; what is cached is the high watermark of the same answer.
                    end = consumer.get_watermark_offsets(KafkaPartition(topic, lane), cached=True)[1]
                    open_from[lane] = message.offset() if message.offset() < end else None
                elif fault_of(error.name()).is_transient or error.retriable():
                    complaint = reason_in(error.str())
                else:
                    raise fault_of(error.name()).error(
                        connection.bootstrap_servers, f"the topic {topic}", reason=reason_in(error.str())
                    )
            if clock.is_stalled:
                raise TRANSIENT.error(connection.bootstrap_servers, f"the topic {topic}", reason=complaint)
    finally:
        consumer.close()
    return {lane: LaneRecords(records, open_from[lane]) for lane, records in found.items()}


def lane_state(records: Iterable[tuple[bytes | None, bytes | None]]) -> LaneState:
    """Put together what the records of a lane say, in their order. Raises ValueError for what is none."""
    state = LaneState()
    last_parts: dict[TopicPartition, tuple[int, LaneMapPart]] = {}
    for key, value in latest(records).items():
        about, message = read_record(key, value)
        place = (about.source, about.partition)
        if about.kind == "run":
            state.run = message
        elif about.kind == "flow":
            state.flow = message
        elif about.kind == "position":
            state.positions[place] = message
        else:
            state.map_parts.setdefault(place, []).append(about.first_offset)
            if place not in last_parts or last_parts[place][0] < about.first_offset:
                last_parts[place] = (about.first_offset, message)
    state.tails = {place: MapTail.of(part) for place, (_, part) in last_parts.items()}
    for firsts in state.map_parts.values():
        firsts.sort()
    return state
