"""How single records are read, and committed offsets fetched; joins no group, commits nothing.

A consumer fetches committed offsets instead of the admin client, whose requests to a group coordinator crash the
process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import denies_group, denies_topic, fault_of, reason_in
from gapless_mirror.doctor.observed import GROUP_TOPIC, Group, GroupPosition, Probe, Unknown

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

OWN_GROUP = "gapless-doctor"
"""Without members and committed offsets: a consumer requires a group ID, but does not join the group."""
_OPTIONS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "fetch.message.max.bytes": 65536,
    "queued.max.messages.kbytes": 1024,
    "log_level": 0,
}
MAX_TIMESTAMPS = 20
"""Limit for the partitions per group, those with the largest lag, whose next record is read."""
_RETRY_SECONDS = 0.2


class PartitionReader:
    """Reads single records of one cluster."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is sent yet; `timeout_seconds` is the limit for each request."""
        self._connection = connection
        self._timeout = timeout_seconds

    def probe(self, partition: TopicPartition, offset: int) -> Probe:
        """Read a partition from `offset`; reaching its end counts as success."""
        message, problem = self._read(partition, offset)
        if message is None and not problem:
            problem = f"no response to a fetch within {self._timeout:g} s"
        return Probe(partition, problem)

    def timestamp(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the timestamp of the first record from `offset` on; ``None`` for none, or without a response."""
        message, _ = self._read(partition, offset)
        return int(message.timestamp()[1]) if message is not None and message.error() is None else None

    def group(self, name: str, partitions: Sequence[TopicPartition]) -> Group:
        """Return the positions of a group in these partitions."""
        consumer = self._consumer(name)
        try:
            committed = self._committed(consumer, [KafkaPartition(*partition) for partition in partitions])
        except KafkaException as error:
            return _unknown(name, error.args[0])
        finally:
            consumer.close()
        partition_error = next((position.error for position in committed if position.error is not None), None)
        if partition_error is not None:
            return _unknown(name, partition_error)
        return Group(
            name,
            {
                (found.topic, found.partition): GroupPosition(int(found.offset), None)
                for found in committed
                if found.offset >= 0
            },
        )

    def with_timestamps(self, group: Group, ends: Mapping[TopicPartition, int]) -> Group:
        """Add the timestamps of the next records of a group in partitions with these ends."""
        if isinstance(group.positions, Unknown):
            return group
        lags = {
            partition: ends[partition] - position.next_offset
            for partition, position in group.positions.items()
            if partition in ends and position.next_offset < ends[partition]
        }
        largest = sorted(lags, key=lambda partition: -lags[partition])[:MAX_TIMESTAMPS]
        timestamped = {
            partition: replace(found, record_ms=self.timestamp(partition, found.next_offset))
            for partition in largest
            if (found := group.positions[partition])
        }
        return replace(group, positions={**group.positions, **timestamped})

    def coordinator(self, name: str) -> Group:
        """Check whether the coordinator of a group responds."""
        consumer = self._consumer(name)
        try:
            self._committed(consumer, [KafkaPartition(GROUP_TOPIC, 0)])
        except KafkaException as error:
            if not denies_topic(error.args[0].name()):  # which is a response of the coordinator
                return replace(_unknown(name, error.args[0]), has_positions=False)
        finally:
            consumer.close()
        return Group(name, {}, has_positions=False)

    def _committed(self, consumer: Consumer, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        """Fetch committed offsets, and retry errors other than denied access. Raises KafkaException."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                committed: list[KafkaPartition] = consumer.committed(partitions, timeout=deadline - time.monotonic())
            except KafkaException as error:
                if _is_denied(error.args[0]) or time.monotonic() + _RETRY_SECONDS > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return committed

    def _read(self, partition: TopicPartition, offset: int) -> tuple[Any, str]:
        """Return the first message, or the reason why none can be read; both are empty after the timeout."""
        consumer = self._consumer(self._connection.group_id or OWN_GROUP)
        try:
            consumer.assign([KafkaPartition(*partition, offset)])
            deadline = time.monotonic() + self._timeout
            while time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return message, ""
                if not fault_of(error.name()).is_transient:
                    return None, reason_in(error.str())
        finally:
            consumer.close()
        return None, ""

    def _consumer(self, group: str) -> Consumer:
        return new_consumer(self._connection, {**_OPTIONS, "group.id": group})


def _unknown(name: str, error: KafkaError) -> Group:
    return Group(name, Unknown(reason_in(error.str())), is_denied=_is_denied(error))


def _is_denied(error: KafkaError) -> bool:
    return denies_group(error.name()) or denies_topic(error.name())
