"""A record without a meaning in a lane's partition of the control topic: what was written earlier is before it.

A broker that has hung, or that cannot reach the controller, answers reads as the leader that it was, without what was
written since. It cannot confirm a record, because its followers do not have it. Who reads up to a mark that was
confirmed has therefore read what was committed before. Must not know what the records of a lane mean.

The mark is written outside any transaction: one with the transactional ID of the lane would end a transaction that
Kafka has left open, and make its records visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from gapless_kafka.access.constructors import FOLLOW_BROKERS, new_producer
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS
from gapless_kafka.writing.faults import not_written, writing_error
from gapless_mirror.lanes.records import NOOP_KEY

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

_WAIT_SECONDS = 0.2
_OPTIONS = {
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": int(STALLED_AFTER_SECONDS * 1000),
    **FOLLOW_BROKERS,
}


def write_mark(
    connection: KafkaConnection, control_topic: str, lane: int, *, pulse: Callable[[], None] = lambda: None
) -> int:
    """Write a mark, and return its offset.

    Args:
        connection: to the target.
        control_topic: of the mirror.
        lane: its partition.
        pulse: called during each wait; it may raise to cancel the work.

    Raises:
        GaplessError: Kafka denies access, does not answer, or has no leader or too few replicas of the partition.
    """
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None or message.offset() is None:
            errors.append(not_written(error))
        else:
            offsets.append(message.offset())

    producer = new_producer(connection, _OPTIONS)
    try:
        producer.produce(control_topic, None, NOOP_KEY, lane, on_delivery)
        while producer.flush(_WAIT_SECONDS):
            pulse()
    except KafkaException as error:
        errors.append(error.args[0])
    if errors or not offsets:
        raise writing_error(errors[0] if errors else not_written(None), connection.bootstrap_servers, control_topic)
    return offsets[0]
