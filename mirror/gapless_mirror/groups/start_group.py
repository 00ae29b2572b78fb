"""The consumer group in the source that a new mirror continues from, such as that of a program that it replaces.

Must not know the positions of the mirror, which take precedence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.consumer_groups import consumer_groups, group_positions

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import TopicCut


class StartGroup:
    """The consumer group of the setting ``startAtGroup``."""

    def __init__(self, connection: KafkaConnection, group: str, *, timeout_seconds: float) -> None:
        self._connection, self._group, self._timeout_seconds = connection, group, timeout_seconds
        self._offsets: dict[TopicPartition, int] = {}
        self._requested: set[TopicPartition] = set()

    def check(self) -> None:
        """Check that the group exists and has no members.

        Raises:
            ConfigurationError: there is no such group, or it still has members.
            SourceUnreachableError: Kafka does not answer within the timeout, or denies access.
        """
        servers = self._connection.bootstrap_servers
        groups = consumer_groups(self._connection, timeout_seconds=self._timeout_seconds)
        if self._group not in groups:
            raise ConfigurationError(
                f"Kafka at {servers} shows no consumer group {self._group}; correct startAtGroup, or grant Describe on "
                f"the group."
            )
        if groups[self._group]:
            raise ConfigurationError(
                f"The consumer group {self._group} at {servers} still has members; stop its consumers, so that its "
                f"offsets no longer change."
            )

    def offsets(self, cuts: Iterable[TopicCut]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets in the given topics; each partition is looked up once.

        Raises:
            SourceUnreachableError: Kafka does not answer within the timeout, or denies access.
        """
        partitions = [(cut.topic, number) for cut in cuts for number in range(len(cut.first_offsets))]
        new = [partition for partition in partitions if partition not in self._requested]
        if new:
            self._offsets |= group_positions(self._connection, self._group, new, timeout_seconds=self._timeout_seconds)
            self._requested.update(new)
        return self._offsets
