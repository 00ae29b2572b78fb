"""Queries about consumer groups: their names, whether they have members, and their committed offsets.

The admin client lists groups, and a consumer fetches committed offsets: the admin client's requests to a group
coordinator crash the process when the connection drops (librdkafka issues 3663 and 4605).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import UNREACHABLE, denies_group, fault_of, reason_in

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_STATES_WITHOUT_MEMBERS = frozenset({"EMPTY", "DEAD"})
_BATCH_SIZE = 5_000
"""Partitions in one request."""
_RETRY_SECONDS = 0.2
_PROBE_SECONDS = 5.0


class UnstableOffsetsError(SourceUnreachableError):
    """Offsets of a consumer group are part of a transaction that has not ended, so nothing is known of them."""


def consumer_groups(connection: KafkaConnection, *, timeout_seconds: float) -> dict[str, bool]:
    """Return all visible consumer groups, each with whether it has members.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
    """

    def request(admin: Admin) -> dict[str, bool]:
        future = admin.client.list_consumer_groups(request_timeout=admin.request_seconds)
        listed = admin.result(future, "the list of consumer groups")
        for failure in listed.errors or ():
            error = failure.args[0] if isinstance(failure, KafkaException) else failure
            raise fault_of(error.name()).error(
                connection.bootstrap_servers, "the list of consumer groups", reason=reason_in(error.str())
            )
        return {group.group_id: group.state.name not in _STATES_WITHOUT_MEMBERS for group in listed.valid}

    return call_admin(connection, request, timeout_seconds=timeout_seconds)


class GroupCommit(NamedTuple):
    """What a consumer group has committed for a partition."""

    offset: int
    metadata: str = ""
    """Text of the consumer, such as the time of a stream task of Kafka Streams; usually empty."""


def group_positions(
    connection: KafkaConnection, group: str, partitions: Sequence[TopicPartition], *, timeout_seconds: float
) -> dict[TopicPartition, int]:
    """Return the committed offsets of `group` like `group_commits`."""
    commits = group_commits(connection, group, partitions, timeout_seconds=timeout_seconds)
    return {partition: commit.offset for partition, commit in commits.items()}


def group_commits(
    connection: KafkaConnection, group: str, partitions: Sequence[TopicPartition], *, timeout_seconds: float
) -> dict[TopicPartition, GroupCommit]:
    """Return what `group` has committed; partitions without an offset are left out.

    Raises:
        UnstableOffsetsError: a transaction with offsets of the group has not ended in time.
        SourceUnreachableError: Kafka does not respond in time, or denies access to the group.
    """
    consumer = _member_of(connection, group)
    deadline = time.monotonic() + timeout_seconds
    commits: dict[TopicPartition, GroupCommit] = {}
    try:
        for start in range(0, len(partitions), _BATCH_SIZE):
            batch = [KafkaPartition(*partition) for partition in partitions[start : start + _BATCH_SIZE]]
            for partition in _committed(connection, consumer, group, batch, deadline):
                if partition.error is None and partition.offset >= 0:
                    commit = GroupCommit(partition.offset, partition.metadata or "")
                    commits[partition.topic, partition.partition] = commit
    finally:
        consumer.close()
    return commits


def _member_of(connection: KafkaConnection, group: str, isolation: str = "read_committed") -> Consumer:
    """Return a consumer that asks for the offsets of a group; it never joins it."""
    return new_consumer(connection, {"group.id": group, "enable.auto.commit": False, "isolation.level": isolation})


def _committed(
    connection: KafkaConnection, consumer: Consumer, group: str, partitions: list[KafkaPartition], deadline: float
) -> list[KafkaPartition]:
    """Fetch committed offsets, and retry transient errors until the deadline. Raises like `group_commits`.

    Kafka gives no answer while a transaction with some of them is open. That it is the reason is known when it answers
    without regard to transactions, and then again gives none.
    """
    has_offsets = False
    while True:
        try:
            committed: list[KafkaPartition] = consumer.committed(
                partitions, timeout=max(deadline - time.monotonic(), _PROBE_SECONDS if has_offsets else 0.1)
            )
        except KafkaException as failure:
            error = failure.args[0]
            if error.name() == "_TIMED_OUT" and has_offsets:
                raise UnstableOffsetsError(
                    f"A transaction with offsets of the consumer group {group} at {connection.bootstrap_servers} has "
                    f"not ended, so its position is unknown; try again after its end, which is at the latest after the "
                    f"transaction.timeout.ms of its producer."
                ) from None
            if error.name() == "_TIMED_OUT" and _has_offsets(connection, group, partitions):
                has_offsets = True
                continue
            fault = fault_of(error.name())
            may_retry = fault.is_transient and fault is not UNREACHABLE and not denies_group(error.name())
            if not may_retry or time.monotonic() > deadline:
                raise fault.error(
                    connection.bootstrap_servers, f"the consumer group {group}", reason=reason_in(error.str())
                ) from None
            time.sleep(_RETRY_SECONDS)
        else:
            return committed


def _has_offsets(connection: KafkaConnection, group: str, partitions: list[KafkaPartition]) -> bool:
    """Whether Kafka answers about the offsets of a group if open transactions do not matter."""
    consumer = _member_of(connection, group, "read_uncommitted")
    try:
        consumer.committed(partitions, timeout=_PROBE_SECONDS)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True
