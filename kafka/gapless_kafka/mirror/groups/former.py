"""Owns where the program stood whose work a mirror continues: the positions of its consumer group at the source.

Must not know the positions of the mirror, which win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.consumer_groups import consumer_groups, group_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import TopicCut


class FormerGroup:
    """A consumer group of the source."""

    def __init__(self, connection: KafkaConnection, group: str, *, timeout_seconds: float) -> None:
        self._connection, self._group, self._timeout_seconds = connection, group, timeout_seconds
        self._found: dict[TopicPartition, int] = {}
        self._seen: set[TopicPartition] = set()

    def check(self) -> None:
        """Make sure that the group has ended its work.

        Raises:
            ConfigurationError: there is no such group, or it still has members.
            SourceUnreachableError: Kafka does not answer within the time, or refuses us.
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
                f"The consumer group {self._group} at {servers} has members; stop the program that it belongs to, so "
                f"that its positions change no more."
            )

    def positions(self, cuts: Iterable[TopicCut]) -> dict[TopicPartition, int]:
        """The positions in all partitions of some topics; each partition is looked up once.

        Raises:
            SourceUnreachableError: Kafka does not answer within the time, or denies it.
        """
        places = [(cut.topic, number) for cut in cuts for number in range(len(cut.first_offsets))]
        new = [place for place in places if place not in self._seen]
        if new:
            found = group_positions(self._connection, self._group, new, timeout_seconds=self._timeout_seconds)
            self._found |= found
            self._seen.update(new)
        return self._found
