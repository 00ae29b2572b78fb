"""Owns how the records of a lane are read: by assignment at given offsets, without any consumer group of the source.

Must not know where records go. What it reports of errors is decided by its user.
"""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.errors import BAD_SETTINGS, reason_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import KafkaError

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_PAUSE_SECONDS = 0.01
"""For further records behind the first one."""


class Batch(NamedTuple):
    """Records of one partition, ascending."""

    place: TopicPartition
    messages: list[Any]
    """Records of Kafka's client, or what has the same calls."""
    target: str | None = None
    """Another target topic than that of the partition; ``None`` for that."""


class Reading(NamedTuple):
    """What came."""

    batches: list[Batch]
    ends: dict[TopicPartition, int]
    """The ends that were reached, of what can be read at this moment."""
    errors: list[tuple[TopicPartition, KafkaError]]
    """Of partitions."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing came."""
        return not (self.batches or self.ends or self.errors)


class Reader(Protocol):
    """What a lane reads from; see `LaneReader`."""

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read further partitions, each from an offset; one that is read already continues there."""

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""

    def log_range(self, place: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """The start of a partition's log, and its end. Raises KafkaException."""

    def read(self, most: int, timeout_seconds: float) -> Reading:
        """Wait for records, and take at most `most`."""

    def close(self) -> None:
        """Let the connection go."""


class LaneReader:
    """One consumer. `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        queue_kib: int = 8_192,
        complain: Callable[[KafkaError], None] = lambda _error: None,
    ) -> None:
        """Create the client. Raises ConfigurationError when it refuses the settings.

        Args:
            connection: to the source.
            queue_kib: how much is fetched ahead.
            complain: called for errors that are of no partition, in `read`.
        """
        quiet = logging.getLogger("gapless.librdkafka")
        quiet.propagate = False
        quiet.setLevel(logging.CRITICAL + 1)
        options = {
            **connection.librdkafka_options(),
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
            "log_level": 0,
            "error_cb": complain,
        }
        try:
            self._consumer = Consumer(options, logger=quiet)
        except KafkaException as error:
            raise BAD_SETTINGS.error(connection.bootstrap_servers, reason=reason_in(error.args[0].str())) from None
        self._places: set[TopicPartition] = set()

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read further partitions, each from an offset; one that is read already continues there."""
        self.drop(place for place in offsets if place in self._places)
        if offsets:
            self._consumer.incremental_assign([KafkaPartition(*place, offset) for place, offset in offsets.items()])
            self._places |= offsets.keys()

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        dropped = [place for place in places if place in self._places]
        if dropped:
            self._consumer.incremental_unassign([KafkaPartition(*place) for place in dropped])
            self._places.difference_update(dropped)

    def log_range(self, place: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """The start of a partition's log, and its end. Raises KafkaException."""
        low, high = self._consumer.get_watermark_offsets(KafkaPartition(*place), timeout=timeout_seconds, cached=False)
        return int(low), int(high)

    def read(self, most: int, timeout_seconds: float) -> Reading:
        """Wait for records, and take at most `most`."""
        messages: list[Any] = self._consumer.consume(1, timeout_seconds)
        if messages and most > 1:
            messages += self._consumer.consume(most - 1, _PAUSE_SECONDS)
        reading = Reading([], {}, [])
        for place, some in groupby(messages, _place_of):
            if place is not None:
                if place in self._places:
                    reading.batches.append(Batch(place, list(some)))
                continue
            for message in some:
                found = (message.topic(), message.partition())
                if message.error().name() == "_PARTITION_EOF":
                    reading.ends[found] = message.offset()
                else:
                    reading.errors.append((found, message.error()))
        return reading

    def close(self) -> None:
        """Let the connection go."""
        self._consumer.close()


def _place_of(message: Any) -> TopicPartition | None:
    """The partition of a record; ``None`` for what is no record."""
    return None if message.error() is not None else (message.topic(), message.partition())
