"""Owns how workers share the lanes of a mirror: as members of a group that is assigned the control topic's partitions.

Kafka's protocol assigns lanes; positions are not the group's. A lane is given back before another worker gets it, and
one that was lost is left at once. Must not know what a lane does.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.errors import BAD_SETTINGS, reason_in
from gapless_kafka.mirror.lanes.observations import SeenError

if TYPE_CHECKING:
    from collections.abc import Collection

    from confluent_kafka import KafkaError

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.identity import MirrorIdentity

SESSION_SECONDS = 6.0
"""After which a member that is silent loses its lanes; Kafka's brokers allow no less by default."""
HEARTBEAT_SECONDS = 1.5
"""With the answer to a heartbeat a member hears that the group has changed."""


def member_options(identity: MirrorIdentity) -> dict[str, Any]:
    """The settings of the client as a member of the group: lanes of a dead worker move within 10 s.

    The group waits a session for it, and the others hear of it within a heartbeat. They keep the lanes that they have.
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
    """Who is told which lanes it has."""

    def take(self, lanes: Collection[int]) -> None:
        """These lanes are ours from now on."""

    def give_back(self, lanes: Collection[int]) -> None:
        """These lanes are another's as soon as this returns."""

    def lose(self, lanes: Collection[int]) -> None:
        """These lanes are another's already."""


class Membership:
    """A member of the group. Call `poll` often, and `close` at the end, which leaves the group."""

    def __init__(self, connection: KafkaConnection, identity: MirrorIdentity, owner: LaneOwner) -> None:
        """Join the group in `poll`. Raises ConfigurationError when the client refuses the settings."""
        self._owner = owner
        self.error: SeenError | None = None
        """What the client reported last of the group, until lanes are assigned again."""
        quiet = logging.getLogger("gapless.librdkafka")
        quiet.propagate = False
        quiet.setLevel(logging.CRITICAL + 1)
        options = {**connection.librdkafka_options(), **member_options(identity), "error_cb": self._note}
        try:
            self._consumer = Consumer(options, logger=quiet)
            self._consumer.subscribe(
                [identity.control_topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        except KafkaException as error:
            raise BAD_SETTINGS.error(connection.bootstrap_servers, reason=reason_in(error.args[0].str())) from None

    def poll(self, seconds: float) -> None:
        """Serve the group; the owner is told in here what changes."""
        message = self._consumer.poll(seconds)
        error = message.error() if message is not None else None
        if error is not None:
            self._note(error)

    def close(self) -> None:
        """Leave the group at once; the owner gives its lanes back first."""
        self._consumer.close()

    def _assigned(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self.error = None
        # Nothing is read through the group: the lanes read their partitions themselves.
        consumer.incremental_assign([KafkaPartition(one.topic, one.partition, OFFSET_END) for one in partitions])
        consumer.pause(partitions)
        self._owner.take([one.partition for one in partitions])

    def _revoked(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self._owner.give_back([one.partition for one in partitions])
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Any, partitions: list[KafkaPartition]) -> None:
        self._owner.lose([one.partition for one in partitions])
        consumer.incremental_unassign(partitions)

    def _note(self, error: KafkaError) -> None:
        self.error = SeenError(message=reason_in(error.str()), name=error.name(), seen_at=time.monotonic())
