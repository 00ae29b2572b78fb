"""Owns which topics there are, and which of their partitions have no leader, so that nobody can tell their ends.

A list of all topics leaves out those that are denied: they look deleted there.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection

from gapless_kafka.access.admin import ask
from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of, reason_in

if TYPE_CHECKING:
    from collections.abc import Collection

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


def denied_topics(connection: KafkaConnection, topics: Collection[str], *, timeout_seconds: float) -> set[str]:
    """Those of some topics that Kafka denies to describe; whether they exist nobody can tell then.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """

    def question(admin: Admin) -> set[str]:
        asked = admin.client.describe_topics(TopicCollection(sorted(topics)), request_timeout=admin.timeout_seconds)
        found = set()
        for name, future in asked.items():
            try:
                future.result(timeout=admin.timeout_seconds + 1)
            except FutureTimeoutError:
                raise admin.unreachable() from None
            except KafkaException as error:
                fault = fault_of(error.args[0].name())
                if fault is DENIED:
                    found.add(name)
                elif fault is not NO_TOPIC:
                    admin.answer(future, f"the topic {name}")  # which raises
        return found

    return ask(connection, question, timeout_seconds=timeout_seconds) if topics else set()
