"""How workers share the lanes of a mirror: as members of a group that is assigned the control topic's partitions.

Kafka's group protocol only assigns lanes; the group commits no offsets. A lane is released before another worker gets
it, and a lost lane is aborted at once. Must not know what a lane does.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import BAD_SETTINGS, reason_in
from gapless_mirror.lanes.observations import SeenError

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.identity import MirrorIdentity

SESSION_SECONDS = 6.0
"""The session timeout: the minimum that brokers allow by default."""
HEARTBEAT_SECONDS = 1.5
"""A member learns of a rebalance from the response to a heartbeat."""


def member_options(identity: MirrorIdentity) -> dict[str, Any]:
    """Return the client settings of a group member, with which lanes of a dead worker move within 10 s.

    The group waits for one session timeout, and the other members rejoin within a heartbeat. They keep their lanes.
    """
    return {
        "group.id": identity.group,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": int(SESSION_SECONDS * 1000),
        "heartbeat.interval.ms": int(HEARTBEAT_SECONDS * 1000),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "latest",
        "queued.max.messages.kbytes": 16,
        "topic.metadata.refresh.interval.ms": 60_000,
        "reconnect.backoff.max.ms": 2000,
        "log_level": 0,
    }


class LaneOwner(Protocol):
    """The receiver of lane assignments; see `Worker`."""

    def acquire(self, lanes: Collection[int]) -> None:
        """Start to copy these lanes."""

    def release(self, lanes: Collection[int]) -> None:
        """Stop copying these lanes; another worker may own them when this returns."""

    def lose(self, lanes: Collection[int]) -> None:
        """Abort these lanes at once: another worker already owns them."""


class Membership:
    """A member of the group. Call `poll` often, and `close` at the end, which leaves the group."""

    def __init__(self, connection: KafkaConnection, identity: MirrorIdentity, owner: LaneOwner) -> None:
        """Join the group in `poll`. Raises ConfigurationError when the client rejects the settings."""
        self._owner = owner
        self.error: SeenError | None = None
        """The last error of the group, until lanes are assigned again."""
        options = {**member_options(identity), "error_cb": self._note_error}
        self._consumer = new_consumer(connection, options)
        try:
            self._consumer.subscribe(
                [identity.control_topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException as error:
            raise BAD_SETTINGS.error(connection.bootstrap_servers, reason=reason_in(error.args[0].str())) from None

    def poll(self, seconds: float) -> None:
        """Handle group events, which call the owner."""
        message = self._consumer.poll(seconds)
        error = message.error() if message is not None else None
        if error is not None:
            self._note_error(error)

    def close(self) -> None:
        """Leave the group; the owner has released its lanes before."""
        self._consumer.close()

    def _on_assign(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self.error = None
        # This consumer reads no records: the lanes read their partitions of the control topic themselves.
        consumer.incremental_assign([KafkaPartition(each.topic, each.partition, OFFSET_END) for each in partitions])
        consumer.pause(partitions)
        self._owner.acquire([each.partition for each in partitions])

    def _on_revoke(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self._owner.release([each.partition for each in partitions])
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self._owner.lose([each.partition for each in partitions])
        consumer.incremental_unassign(partitions)

    def _note_error(self, error: KafkaError) -> None:
        self.error = SeenError(message=reason_in(error.str()), name=error.name(), seen_at=time.monotonic())
