"""Owns which topics there are, and which of their partitions have no leader, so that nobody can tell their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from gapless_kafka.access.admin import ask
from gapless_kafka.access.errors import fault_of, reason_in

if TYPE_CHECKING:
    from gapless_kafka.access.admin import Admin
    from gapless_kafka.access.connection import KafkaConnection


def leaderless_by_topic(connection: KafkaConnection, *, timeout_seconds: float) -> dict[str, tuple[int, ...]]:
    """All topics that Kafka shows us, each with its partitions without a leader.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """

    def question(admin: Admin) -> dict[str, tuple[int, ...]]:
        try:
            told = admin.client.list_topics(timeout=admin.timeout_seconds).topics
        except KafkaException as error:
            found = error.args[0]
            raise fault_of(found.name()).error(
                connection.bootstrap_servers, "the list of topics", reason=reason_in(found.str())
            ) from None
        return {
            name: tuple(sorted(number for number, one in topic.partitions.items() if one.leader < 0))
            for name, topic in told.items()
        }

    return ask(connection, question, timeout_seconds=timeout_seconds)
