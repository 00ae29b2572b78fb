"""Owns how a partition is read without a consumer group, and where groups stand; commits nothing, joins no group.

A consumer asks for the positions of a group and not the admin client, whose requests to a group's coordinator end the
process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from gapless_kafka.access.errors import denies_group, denies_topic, fault_of, reason_in
from gapless_kafka.doctor.observed import GROUP_TOPIC, Group, GroupPosition, Probe, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.connection import KafkaConnection

OWN_GROUP = "gapless-doctor"
"""Has no member and no position. A reader needs a name of a group, and does not use the group."""
_QUIET: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "fetch.message.max.bytes": 65536,
    "queued.max.messages.kbytes": 1024,
    "log_level": 0,
}
MOST_TIMES = 20
"""Of so many partitions per reader, those with the largest lag, the next record is looked at."""


class PartitionReader:
    """Reads single records of one cluster."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is asked yet; `timeout_seconds` is how long each answer may take."""
        self._connection = connection
        self._timeout = timeout_seconds

    def probe(self, place: Place, offset: int) -> Probe:
        """Read a partition from `offset`; its end is an answer, too."""
        message, problem = self._read(place, offset)
        if message is None and not problem:
            problem = f"no answer to a fetch within {self._timeout:g} s"
        return Probe(place, problem)

    def timestamp(self, place: Place, offset: int) -> int | None:
        """The timestamp of the first record from `offset` on; ``None`` for none, or without an answer."""
        message, _ = self._read(place, offset)
        return int(message.timestamp()[1]) if message is not None and message.error() is None else None

    def group(self, name: str, ends: Mapping[Place, int]) -> Group:
        """Where a group stands in the partitions with these ends, and how old its next records are."""
        consumer = self._consumer(name)
        try:
            found = self._committed(consumer, [TopicPartition(*place) for place in ends])
        except KafkaException as error:
            return _unknown(name, error.args[0])
        finally:
            consumer.close()
        failed = next((one.error for one in found if one.error is not None), None)
        if failed is not None:
            return _unknown(name, failed)
        nexts = {(one.topic, one.partition): int(one.offset) for one in found if one.offset >= 0}
        behind = sorted(
            (place for place in nexts if nexts[place] < ends[place]), key=lambda place: nexts[place] - ends[place]
        )
        times = {place: self.timestamp(place, nexts[place]) for place in behind[:MOST_TIMES]}
        return Group(name, {place: GroupPosition(offset, times.get(place)) for place, offset in nexts.items()})

    def coordinator(self, name: str) -> Group:
        """Whether the coordinator of a group answers."""
        consumer = self._consumer(name)
        try:
            self._committed(consumer, [TopicPartition(GROUP_TOPIC, 0)])
        except KafkaException as error:
            if not denies_topic(error.args[0].name()):  # which the coordinator has answered
                return replace(_unknown(name, error.args[0]), has_positions=False)
        finally:
            consumer.close()
        return Group(name, {}, has_positions=False)

    def _committed(self, consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
        """Ask again while the coordinator is busy with itself. Raises KafkaException."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                answer: list[TopicPartition] = consumer.committed(places, timeout=deadline - time.monotonic())
            except KafkaException as error:
                if _is_denied(error.args[0]) or time.monotonic() + 0.2 > deadline:
                    raise
                time.sleep(0.2)
            else:
                return answer

    def _read(self, place: Place, offset: int) -> tuple[Any, str]:
        consumer = self._consumer(self._connection.group_id or OWN_GROUP)
        try:
            consumer.assign([TopicPartition(*place, offset)])
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
        options: dict[str, Any] = {**self._connection.librdkafka_options(), **_QUIET, "group.id": group}
        return Consumer({**options, "error_cb": lambda _error: None})


def _unknown(name: str, error: KafkaError) -> Group:
    return Group(name, Unknown(reason_in(error.str())), is_denied=_is_denied(error))


def _is_denied(error: KafkaError) -> bool:
    return denies_group(error.name()) or denies_topic(error.name())
