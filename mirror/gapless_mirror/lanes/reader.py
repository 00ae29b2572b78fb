"""How the records of a lane are read: by assignment at given offsets, without a consumer group in the source.

Must not know where records go. Errors are returned, not handled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import is_damage
from gapless_kafka.reading.headers import keep_header_bytes

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

NO_EPOCHS: Mapping[TopicPartition, tuple[int, int]] = MappingProxyType({})
NO_DAMAGE: Mapping[TopicPartition, tuple[int, KafkaError]] = MappingProxyType({})
_MORE_SECONDS = 0.01
"""How long to wait for more records after the first one."""


class Batch(NamedTuple):
    """Records of one partition, in offset order."""

    topic_partition: TopicPartition
    messages: list[Any]
    """`confluent_kafka.Message`, or `Transformed`."""


class Reading(NamedTuple):
    """The result of one read."""

    batches: list[Batch]
    ends: dict[TopicPartition, int]
    """The last stable offsets of partitions that were read to their end."""
    errors: list[tuple[TopicPartition, KafkaError]]
    damaged: Mapping[TopicPartition, tuple[int, KafkaError]] = NO_DAMAGE
    """The first offset of a batch that cannot be read, of partitions that are no longer read because of it."""


class Reader(Protocol):
    """The source of a lane's records; see `LaneReader`."""

    def add(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]] = NO_EPOCHS
    ) -> None:
        """Read these partitions from the given offsets; one that is being read already continues from there.

        Args:
            offsets: where to continue.
            epochs: leader epochs of the source, each with an offset up to which its log is known. A log that no longer
                has this epoch up to there gives an error; records before the given offset may be returned.
        """

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""

    def log_range(self, topic_partition: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """Return the start and the end of a partition's log. Raises KafkaException."""

    def read(self, max_records: int, timeout_seconds: float) -> Reading:
        """Wait for records, and return at most `max_records`."""

    def close(self) -> None:
        """Close the connection."""


class LaneReader:
    """Reads with one consumer. Call `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        queue_kib: int = 8_192,
        on_error: Callable[[KafkaError], None] = lambda _error: None,
    ) -> None:
        """Create the client. Raises ConfigurationError when it rejects the settings.

        Args:
            connection: to the source.
            queue_kib: how many KiB of records to prefetch.
            on_error: called in `read` for errors that concern no single partition.
        """
        options = {
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.min.messages": 20_000,
            "queued.max.messages.kbytes": queue_kib,
            "fetch.message.max.bytes": 1024 * 1024,
            "fetch.max.bytes": max(queue_kib, 2048) * 1024,
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 500,
            "fetch.error.backoff.ms": 200,
            "reconnect.backoff.max.ms": 2000,
            "error_cb": on_error,
        }
        self._consumer = new_consumer(connection, options)
        self._assigned: set[TopicPartition] = set()

    def add(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]] = NO_EPOCHS
    ) -> None:
        """See `Reader`. With an epoch, the client asks for its end first (OffsetForLeaderEpoch, KIP-320)."""
        self.drop(topic_partition for topic_partition in offsets if topic_partition in self._assigned)
        if offsets:
            self._consumer.incremental_assign(
                [
                    _start(topic_partition, offset, epochs.get(topic_partition))
                    for topic_partition, offset in offsets.items()
                ]
            )
            self._assigned |= offsets.keys()

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        dropped = [topic_partition for topic_partition in topic_partitions if topic_partition in self._assigned]
        if dropped:
            self._consumer.incremental_unassign([KafkaPartition(*topic_partition) for topic_partition in dropped])
            self._assigned.difference_update(dropped)

    def log_range(self, topic_partition: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """Return the start and the end of a partition's log. Raises KafkaException."""
        low, high = self._consumer.get_watermark_offsets(
            KafkaPartition(*topic_partition), timeout=timeout_seconds, cached=False
        )
        return int(low), int(high)

    def read(self, max_records: int, timeout_seconds: float) -> Reading:
        """Wait for records, and return at most `max_records`."""
        messages: list[Any] = self._consumer.consume(1, timeout_seconds)
        if messages and max_records > 1:
            messages += self._consumer.consume(max_records - 1, _MORE_SECONDS)
        keep_header_bytes(messages)
        damaged: dict[TopicPartition, tuple[int, KafkaError]] = {}
        reading = Reading([], {}, [], damaged=damaged)
        for topic_partition, group in groupby(messages, _topic_partition_of):
            if topic_partition is not None:
                if topic_partition in self._assigned:
                    reading.batches.append(Batch(topic_partition, list(group)))
                continue
            for message in group:
                source = (message.topic(), message.partition())
                if is_damage(message.error().name()) and source in self._assigned:
                    damaged[source] = (message.offset() or 0, message.error())
                    self.drop([source])  # the client would continue at a random offset
                elif source in damaged:
                    continue
                elif message.error().name() == "_PARTITION_EOF":
                    reading.ends[source] = message.offset()
                else:
                    reading.errors.append((source, message.error()))
        return reading

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


def _start(topic_partition: TopicPartition, offset: int, known: tuple[int, int] | None) -> KafkaPartition:
    """Return where to read a partition: at the end of what is known of its leader epoch, or at `offset`."""
    if known is None:
        return KafkaPartition(*topic_partition, offset)
    epoch, end = known
    return KafkaPartition(*topic_partition, end, leader_epoch=epoch)


def _topic_partition_of(message: Any) -> TopicPartition | None:
    """Return the partition of a record; ``None`` for an error."""
    return None if message.error() is not None else (message.topic(), message.partition())
