"""How a position is committed as that of a consumer group, for tools that monitor lag.

No program resumes from it. A consumer commits it instead of the admin client, whose requests to a group coordinator
crash the process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError
from gapless_api.base.unexpected import unexpected_sentence
from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import DENIED, UNREACHABLE, denies_group, fault_of, group_has_members, reason_in

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

NO_METADATA: Mapping[TopicPartition, str] = MappingProxyType({})


def publish_position(
    connection: KafkaConnection,
    group: str,
    next_offsets: Mapping[TopicPartition, int],
    *,
    timeout_seconds: float,
    metadata: Mapping[TopicPartition, str] = NO_METADATA,
) -> None:
    """Commit offsets of `group`, which must have no members.

    Args:
        connection: to the cluster.
        group: the name.
        next_offsets: the offsets.
        timeout_seconds: of the commit.
        metadata: text to commit with offsets.

    Raises:
        ConfigurationError: the group has members.
        SourceUnreachableError: Kafka does not respond in time, or refuses the commit.
    """
    if not next_offsets:
        return
    results: list[tuple[KafkaError | None, list[KafkaPartition]]] = []

    def on_commit(error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
        results.append((error, partitions))

    consumer = new_consumer(connection, {"group.id": group, "enable.auto.commit": False, "on_commit": on_commit})
    try:
        partitions = [
            KafkaPartition(*partition, offset, metadata=metadata.get(partition, ""))
            for partition, offset in next_offsets.items()
        ]
        consumer.commit(offsets=sorted(partitions), asynchronous=True)
        deadline = time.monotonic() + timeout_seconds
        while not results and time.monotonic() < deadline:
            consumer.poll(0.05)
        if not results:
            raise UNREACHABLE.error(connection.bootstrap_servers, reason="no response from the group coordinator")
        ((error, committed),) = results
        error = error or next((partition.error for partition in committed if partition.error is not None), None)
        if error is not None:
            raise _error_for(error, group, connection.bootstrap_servers)
    finally:
        consumer.close()


def _error_for(error: KafkaError, group: str, servers: str) -> GaplessError:
    """The error to raise for a failed commit; unlike for readers, errors of groups matter here."""
    if group_has_members(error.name()):
        return ConfigurationError(
            f"The consumer group {group} at {servers} has members, so its offsets cannot be committed; stop its "
            f"consumers and run again."
        )
    fault = DENIED if denies_group(error.name()) else fault_of(error.name())
    return fault.error(servers, f"the consumer group {group}", reason=reason_in(error.str()))


class PositionPublisher:
    """Commits positions in a background thread, so that a broker failure never delays the work."""

    def __init__(
        self,
        connection: KafkaConnection,
        group: str,
        *,
        timeout_seconds: float,
        failed: Callable[[GaplessError], None],
    ) -> None:
        """Prepare to publish for `group`.

        Args:
            connection: to the cluster.
            group: has no members.
            timeout_seconds: limit for one commit.
            failed: called in the background thread; offsets of a failed commit are published with the next ones.
        """
        self._connection, self._group, self._timeout_seconds = connection, group, timeout_seconds
        self._failed = failed
        self._lock = threading.Lock()
        self._unpublished: dict[TopicPartition, int] = {}
        self._thread: threading.Thread | None = None

    def publish(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Publish offsets in the background."""
        with self._lock:
            self._unpublished |= next_offsets
            if self._unpublished and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="position", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Wait until all offsets are published, but no longer than the timeout."""
        thread = self._thread
        if thread is not None:
            thread.join(self._timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                batch, self._unpublished = self._unpublished, {}
                if not batch:
                    self._thread = None
                    return
            try:
                publish_position(self._connection, self._group, batch, timeout_seconds=self._timeout_seconds)
            except GaplessError as error:
                self._fail(batch, error)
                return
            except Exception as error:  # noqa: BLE001 -- the offsets are published with the next ones
                sentence = unexpected_sentence(f"Offsets of the group {self._group} were not published", error)
                self._fail(batch, SourceStalledError(sentence))
                return

    def _fail(self, batch: Mapping[TopicPartition, int], error: GaplessError) -> None:
        """Report an error, and keep the offsets of `batch` for the next commit."""
        self._failed(error)
        with self._lock:
            self._unpublished = {**batch, **self._unpublished}
            self._thread = None
