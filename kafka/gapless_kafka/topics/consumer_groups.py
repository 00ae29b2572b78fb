"""Owns what is asked about consumer groups: which there are, whether they have members, and their positions.

Groups are listed by every broker, and a consumer asks for positions: the admin client's requests to a group's
coordinator end the process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from gapless_kafka.access.admin import ask
from gapless_kafka.access.errors import UNREACHABLE, denies_group, fault_of, reason_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.admin import Admin
    from gapless_kafka.access.connection import KafkaConnection

_WITHOUT_MEMBERS = frozenset({"EMPTY", "DEAD"})
_AT_ONCE = 5_000
"""Partitions in one request."""
_PAUSE_SECONDS = 0.2


def consumer_groups(connection: KafkaConnection, *, timeout_seconds: float) -> dict[str, bool]:
    """All consumer groups that Kafka shows us, each with whether it has members.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """

    def question(admin: Admin) -> dict[str, bool]:
        asked = admin.client.list_consumer_groups(request_timeout=timeout_seconds)
        found = admin.answer(asked, "the list of consumer groups")
        for error in found.errors or ():
            told = error.args[0] if isinstance(error, KafkaException) else error
            raise fault_of(told.name()).error(
                connection.bootstrap_servers, "the list of consumer groups", reason=reason_in(told.str())
            )
        return {one.group_id: one.state.name not in _WITHOUT_MEMBERS for one in found.valid}

    return ask(connection, question, timeout_seconds=timeout_seconds)


def group_positions(
    connection: KafkaConnection, group: str, places: Sequence[Place], *, timeout_seconds: float
) -> dict[Place, int]:
    """Where `group` continues in each of some partitions; those in which it has no position are left out.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or denies it.
    """
    options: dict[str, Any] = {"group.id": group, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**connection.librdkafka_options(), **options})
    deadline = time.monotonic() + timeout_seconds
    found: dict[Place, int] = {}
    try:
        for begin in range(0, len(places), _AT_ONCE):
            some = [TopicPartition(*place) for place in places[begin : begin + _AT_ONCE]]
            for one in _committed(connection, consumer, group, some, deadline):
                if one.error is None and one.offset >= 0:
                    found[one.topic, one.partition] = one.offset
    finally:
        consumer.close()
    return found


def _committed(
    connection: KafkaConnection, consumer: Consumer, group: str, places: list[TopicPartition], deadline: float
) -> list[TopicPartition]:
    while True:
        try:
            answer: list[TopicPartition] = consumer.committed(places, timeout=max(deadline - time.monotonic(), 0.1))
        except KafkaException as error:
            told = error.args[0]
            fault = fault_of(told.name())
            if denies_group(told.name()) or not fault.passes or fault is UNREACHABLE or time.monotonic() > deadline:
                raise fault.error(
                    connection.bootstrap_servers, f"the consumer group {group}", reason=reason_in(told.str())
                ) from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return answer
