"""Owns how a position is published as that of a consumer group, for the tools that watch lag.

Nothing reads it back: it is not what a program goes on from. A consumer commits it and not the admin client, whose
requests to a group's coordinator end the process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.access.errors import DENIED, UNREACHABLE, denies_group, fault_of, group_has_members, reason_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.connection import KafkaConnection


def publish_position(
    connection: KafkaConnection, group: str, next_offsets: Mapping[Place, int], *, timeout_seconds: float
) -> None:
    """Commit the offsets of `group`, which must have no member.

    Raises:
        ConfigurationError: the group has members.
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """
    if not next_offsets:
        return
    results: list[tuple[KafkaError | None, list[TopicPartition]]] = []

    def committed(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        results.append((error, partitions))

    options: dict[str, Any] = {"group.id": group, "enable.auto.commit": False, "on_commit": committed, "log_level": 0}
    consumer = Consumer({**connection.librdkafka_options(), **options})
    try:
        partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in next_offsets.items()]
        consumer.commit(offsets=sorted(partitions), asynchronous=True)
        deadline = time.monotonic() + timeout_seconds
        while not results and time.monotonic() < deadline:
            consumer.poll(0.05)
        if not results:
            raise UNREACHABLE.error(connection.bootstrap_servers, reason="no answer of the group's coordinator")
        ((error, done),) = results
        error = error or next((partition.error for partition in done if partition.error is not None), None)
        if error is not None:
            raise _refusal(error, group, connection.bootstrap_servers)
    finally:
        consumer.close()


def _refusal(error: KafkaError, group: str, servers: str) -> GaplessError:
    """What an error of a commit means; for readers, who use no group, those of groups pass."""
    if group_has_members(error.name()):
        return ConfigurationError(
            f"The consumer group {group} at {servers} has members, so its positions cannot be set; stop the programs "
            f"that it belongs to, and run again."
        )
    fault = DENIED if denies_group(error.name()) else fault_of(error.name())
    return fault.error(servers, f"the consumer group {group}", reason=reason_in(error.str()))


class PositionPublisher:
    """Publishes positions beside the work, which never waits for it: a lost broker can hold it up for long."""

    def __init__(
        self,
        connection: KafkaConnection,
        group: str,
        *,
        timeout_seconds: float,
        failed: Callable[[GaplessError], None],
    ) -> None:
        """Publish for `group`; `failed` is called in another thread, and what failed is published with what follows."""
        self._connection, self._group, self._timeout_seconds = connection, group, timeout_seconds
        self._failed = failed
        self._lock = threading.Lock()
        self._unpublished: dict[Place, int] = {}
        self._thread: threading.Thread | None = None

    def publish(self, next_offsets: Mapping[Place, int]) -> None:
        """Publish soon."""
        with self._lock:
            self._unpublished |= next_offsets
            if self._unpublished and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="position", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Wait until all is published, but not for longer than it may take."""
        thread = self._thread
        if thread is not None:
            thread.join(self._timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                taken, self._unpublished = self._unpublished, {}
                if not taken:
                    self._thread = None
                    return
            try:
                publish_position(self._connection, self._group, taken, timeout_seconds=self._timeout_seconds)
            except GaplessError as error:
                self._failed(error)
                with self._lock:
                    self._unpublished = taken | self._unpublished
                    self._thread = None
                return
