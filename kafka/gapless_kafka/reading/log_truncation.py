"""Whether a partition's log still contains what a position was recorded for, under the same topic ID.

A position in a log is an offset and the leader epoch at which the log reached it (KIP-101, KIP-320). After an unclean
leader election, or on a replaced disk, a log can end before the position, or have other records in its place. Must not
know what positions are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import EXPIRED, TRANSIENT, fault_of, reason_in
from gapless_kafka.access.stall_clock import StallClock

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_BATCH_SIZE = 1000
_WAIT_SECONDS = 0.1
_PATIENCE_SECONDS = 10.0
"""How long to wait for the leader of a partition whose error is returned, not raised."""
_TRUNCATED = re.compile(
    r"(?:log truncation detected at offset|No epoch found less or equal).*?broker end offset is (-?\d+)"
    r"(?: \(offset leader epoch (-?\d+)\))?",
    re.DOTALL,
)
"""What librdkafka reports when the broker's OffsetForLeaderEpoch contradicts a position."""


def truncation_end(text: str) -> int | None:
    """Return the end of the records that are still the same, from an error of the client; ``None`` for other errors.

    A log without any epoch up to that of the position has none of them.
    """
    match = _TRUNCATED.search(text)
    return None if match is None else max(int(match[1]), 0)


class EpochEnd(NamedTuple):
    """The highest epoch of a log up to a requested one, and the offset at which the next epoch begins."""

    end: int
    epoch: int
    """-1 if the log has no such epoch."""


def _epoch_end(text: str) -> EpochEnd | None:
    match = _TRUNCATED.search(text)
    return None if match is None else EpochEnd(max(int(match[1]), 0), int(match[2] or -1))


def truncation_error(end: int) -> KafkaError:
    """Return the error from which `truncation_end` reads `end`, as Kafka's client gives it."""
    text = f"Partition log truncation detected at offset of the position: broker end offset is {end}"
    return KafkaError(KafkaError._AUTO_OFFSET_RESET, text)  # noqa: SLF001


class LogPosition(NamedTuple):
    """How far a partition was read."""

    topic: str
    partition: int
    next_offset: int
    """The last offset before it was in the log at `leader_epoch`."""
    leader_epoch: int
    """The epoch of the partition's leader at that time, or an earlier one at which the log already reached so far."""


def find_truncated(
    connection: KafkaConnection, positions: Iterable[LogPosition], errors: dict[TopicPartition, str] | None = None
) -> dict[TopicPartition, int]:
    """Ask the leaders for the end of each position's epoch.

    Args:
        connection: to the cluster.
        positions: one of each partition.
        errors: gets the reason for each partition about which nothing could be found out, instead of an exception.

    Returns:
        The partitions whose log was truncated below the position since then, whatever was written afterwards, and the
        end of the records that are still the same.

    Raises:
        SourceUnreachableError: Kafka denies access.
        SourceStalledError: Kafka did not respond in a minute of waiting.
        ConfigurationError: a topic was deleted, or a file of the connection cannot be used.
    """
    return {partition: found.end for partition, found in _ask(connection, positions, errors).items()}


def find_epoch_ends(
    connection: KafkaConnection, positions: Iterable[LogPosition], errors: dict[TopicPartition, str]
) -> dict[TopicPartition, EpochEnd]:
    """Return where the epoch of each position ends, which must be before the position.

    Args:
        connection: to the cluster.
        positions: one of each partition.
        errors: gets the reason for each partition about which nothing could be found out.

    Raises:
        GaplessError: as `find_truncated`.
    """
    return _ask(connection, positions, errors)


def _ask(
    connection: KafkaConnection, positions: Iterable[LogPosition], errors: dict[TopicPartition, str] | None
) -> dict[TopicPartition, EpochEnd]:
    unknown = {(position.topic, position.partition): position for position in positions}
    if not unknown:
        return {}
    consumer = new_consumer(
        connection,
        {
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "queued.min.messages": 1,
            "fetch.message.max.bytes": 1024,
            "fetch.wait.max.ms": 10,
            "check.crcs": False,  # records are not used, and a damaged one says that the log has not been truncated
        },
    )
    try:
        consumer.assign(
            [
                KafkaPartition(topic, number, position.next_offset, leader_epoch=position.leader_epoch)
                for (topic, number), position in unknown.items()
            ]
        )
        return _wait(consumer, connection.bootstrap_servers, unknown, errors)
    except KafkaException as error:
        raise SourceUnreachableError(f"Kafka's client failed ({error.args[0]}); run again.") from error
    finally:
        consumer.close()


def _wait(
    consumer: Consumer,
    servers: str,
    unknown: dict[TopicPartition, LogPosition],
    errors: dict[TopicPartition, str] | None,
) -> dict[TopicPartition, EpochEnd]:
    """Wait for one event of each partition: the client sends nothing of a partition before it has validated it."""
    truncated: dict[TopicPartition, EpochEnd] = {}
    clock, reason = StallClock() if errors is None else StallClock(_PATIENCE_SECONDS), ""
    while unknown:
        clock.start_wait()
        messages = consumer.consume(_BATCH_SIZE, _WAIT_SECONDS)
        known: set[TopicPartition] = set()
        for message in messages:
            partition: Any = (message.topic(), message.partition())
            error = message.error()
            if partition not in unknown and (error is None or partition[0]):
                continue
            if error is None or error.name() == "_PARTITION_EOF":
                known.add(partition)
            elif (end := _epoch_end(error.str())) is not None:
                truncated[partition] = end
                known.add(partition)
            elif fault_of(error.name()) is EXPIRED or _is_kept(errors, error, partition, unknown):
                known.add(partition)  # expired: deleted by its age, so that the log begins after the position
            else:
                reason = _transient_reason(error, servers, partition)
        clock.end_wait(progress=bool(known))
        for partition in known:
            unknown.pop(partition, None)
        consumer.incremental_unassign([KafkaPartition(*partition) for partition in known])
        if clock.is_stalled:
            if errors is None:
                raise TRANSIENT.error(servers, _subject(unknown), reason=reason)
            errors.update(dict.fromkeys(unknown, reason or "its leader does not answer"))
            break
    return truncated


def _is_kept(errors: dict[TopicPartition, str] | None, error: Any, partition: Any, unknown: Any) -> bool:
    """Put an error of one partition into `errors`, if there are such and the client does not retry."""
    if errors is None or partition not in unknown or _is_transient(error):
        return False
    errors[partition] = reason_in(error.str())
    return True


def _transient_reason(error: Any, servers: str, partition: Any) -> str:
    """Return the reason of an error that the client retries. Raises GaplessError for any other."""
    fault, reason = fault_of(error.name()), reason_in(error.str())
    if not _is_transient(error):
        raise fault.error(servers, f"the topic {partition[0]}" if partition[0] else "a topic", reason=reason)
    return reason


def _is_transient(error: Any) -> bool:
    """Whether the client retries."""
    return not error.fatal() and (fault_of(error.name()).is_transient or bool(error.retriable()))


def _subject(unknown: Iterable[TopicPartition]) -> str:
    return "the topic " + ", ".join(sorted({topic for topic, _ in unknown})[:3])
