"""Which topics exist, and which of their partitions have no leader, so that their end offsets are unknown.

A list of all topics omits those without the operation Describe: they look deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection

from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of

if TYPE_CHECKING:
    from confluent_kafka.admin import PartitionMetadata

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection


def leaderless_by_topic(connection: KafkaConnection, *, timeout_seconds: float) -> dict[str, tuple[int, ...]]:
    """Return all visible topics, each with its partitions without a leader.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
    """
    return {
        name: tuple(sorted(number for number, partition in partitions.items() if partition.leader < 0))
        for name, partitions in _listed(connection, timeout_seconds=timeout_seconds).items()
    }


def existing_partitions(connection: KafkaConnection, *, timeout_seconds: float) -> list[TopicPartition]:
    """Return the partitions of all visible topics, sorted. Raises SourceUnreachableError like `leaderless_by_topic`."""
    listed = _listed(connection, timeout_seconds=timeout_seconds)
    return sorted((name, number) for name, partitions in listed.items() for number in partitions)


def _listed(connection: KafkaConnection, *, timeout_seconds: float) -> dict[str, dict[int, PartitionMetadata]]:
    topics = call_admin(connection, Admin.topics, timeout_seconds=timeout_seconds)
    return {name: topic.partitions for name, topic in topics.items()}


def denied_topics(connection: KafkaConnection, topics: Collection[str], *, timeout_seconds: float) -> set[str]:
    """Return the topics that this user may not describe; whether they exist is then unknown.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
    """

    def request(admin: Admin) -> set[str]:
        futures = admin.client.describe_topics(TopicCollection(sorted(topics)), request_timeout=admin.request_seconds)
        denied = set()
        for name, future in futures.items():
            try:
                admin.response(future)
            except KafkaException as error:
                fault = fault_of(error.args[0].name())
                if fault is DENIED:
                    denied.add(name)
                elif fault is not NO_TOPIC:
                    admin.result(future, f"the topic {name}")  # which raises
        return denied

    return call_admin(connection, request, timeout_seconds=timeout_seconds) if topics else set()
