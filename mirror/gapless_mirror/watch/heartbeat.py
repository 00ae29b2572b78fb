"""Heartbeats: records that a mirror writes to the source so that each lane always has something to copy.

The topic has a partition for each lane, and consecutive partitions belong to different lanes. The name of its copy
contains the name of the mirror, so that mirrors with the same target do not mix, and two mirrors in opposite directions
do not copy heartbeats in a loop. Heartbeats are optional: without the right to write them, a mirror warns once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from gapless_kafka.access.constructors import new_admin, new_producer
from gapless_kafka.access.errors import fault_of, reason_in
from gapless_kafka.writing.faults import is_purged
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC, lane_of

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

CONFIGURATION = {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.bytes": str(16 * 1024 * 1024)}
_TIMEOUT_SECONDS = 10.0
_RETRY_SECONDS = 300.0


def partitions_of(lanes: int) -> dict[int, int]:
    """Return the partition of the heartbeat topic for each lane."""
    return {lane_of(HEARTBEAT_TOPIC, partition, lanes): partition for partition in range(lanes)}


def prepare_heartbeats(connection: KafkaConnection, lanes: int) -> None:
    """Create the heartbeat topic in the source if possible, so that the first refresh finds it."""
    with suppress(KafkaException, TimeoutError):  # `Heartbeats` reports it
        _ensure_topic(connection, lanes)


def _ensure_topic(connection: KafkaConnection, lanes: int) -> None:
    admin = new_admin(connection)
    known = _partitions(admin)
    if known >= lanes:
        return
    if known:
        more = [NewPartitions(HEARTBEAT_TOPIC, lanes)]
        futures: Mapping[str, Any] = admin.create_partitions(more, request_timeout=_TIMEOUT_SECONDS)
    else:
        new = NewTopic(HEARTBEAT_TOPIC, lanes, replication_factor=-1, config=CONFIGURATION)
        futures = admin.create_topics([new], operation_timeout=_TIMEOUT_SECONDS, request_timeout=_TIMEOUT_SECONDS)
    try:
        futures[HEARTBEAT_TOPIC].result(timeout=_TIMEOUT_SECONDS + 1)
    except KafkaException as error:
        # Another worker may have done it first.
        if error.args[0].code() not in {KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_PARTITIONS}:
            raise


def _partitions(admin: AdminClient) -> int:
    """Return how many partitions the topic has; 0 without the topic. A question for metadata would create it."""
    topics = TopicCollection([HEARTBEAT_TOPIC])
    future = admin.describe_topics(topics, request_timeout=_TIMEOUT_SECONDS)[HEARTBEAT_TOPIC]
    try:
        return len(future.result(timeout=_TIMEOUT_SECONDS + 1).partitions)
    except KafkaException as error:
        if fault_of(error.args[0].name()).is_transient:
            raise
        return 0


class Heartbeats:
    """Writes the heartbeats of a worker. Call `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        name: str,
        lanes: int,
        *,
        on_error: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Connect at the first heartbeat.

        Args:
            connection: to the source.
            name: of the mirror.
            lanes: of the mirror.
            on_error: called with a message when heartbeats cannot be written; once, until they can be written again.
        """
        self._connection = connection
        self._name = name
        self._lanes = lanes
        self._partitions = partitions_of(lanes)
        self._on_error = on_error
        self._has_failed = False
        self._prepare_at = float("-inf")
        self._producer: Any = None

    def beat(self, lanes: Collection[int], *, now: float | None = None) -> None:
        """Write one heartbeat for each of `lanes`; it is sent in the background."""
        if not self._is_ready():
            return
        at = time.time() if now is None else now
        for lane in lanes:
            value = json.dumps({"mirror": self._name, "lane": lane, "time": round(at, 3)}, separators=(",", ":"))
            try:
                self._producer.produce(
                    HEARTBEAT_TOPIC,
                    value.encode(),
                    self._name.encode(),
                    self._partitions[lane],
                    self._delivered,
                    timestamp=int(at * 1000),
                )
            except (KafkaException, BufferError) as error:
                self._fail(error)
                break
        self._producer.poll(0)

    def close(self) -> None:
        """Close the connection."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0.2)
            self._producer = None

    def _is_ready(self) -> bool:
        if self._producer is not None:
            return True
        if time.monotonic() < self._prepare_at:
            return False
        self._prepare_at = time.monotonic() + _RETRY_SECONDS
        try:
            _ensure_topic(self._connection, self._lanes)
        except (KafkaException, TimeoutError) as error:
            self._fail(error)
            return False
        options = {
            "message.timeout.ms": int(_TIMEOUT_SECONDS * 1000),
            "reconnect.backoff.max.ms": 2000,
            "queue.buffering.max.messages": 10_000,
        }
        self._producer = new_producer(self._connection, options)
        return True

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self._has_failed = False
        elif not is_purged(error):
            self._fail(KafkaException(error))

    def _fail(self, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        cause = error.args[0] if error.args else "no answer"
        # A broker that does not answer, or a full queue: nothing is wrong with the rights.
        is_passing = not isinstance(cause, KafkaError) or fault_of(cause.name()).is_transient
        reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
        advice = (
            "They are tried again." if is_passing else "Grant Create, Describe and Write on it, or set heartbeat=false."
        )
        self._on_error(
            f"Heartbeats cannot be written to the topic {HEARTBEAT_TOPIC} of the source ({reason_in(reason)}); the "
            f"mirror works without them. {advice}"
        )
