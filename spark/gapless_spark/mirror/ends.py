"""Owns how the ends of the source partitions are asked again and again, with one client. Must not know what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.sources import SourceView

_SECONDS = 10.0


class SourceEnds:
    """The last stable offsets of what is copied, as the brokers have them now."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._client = AdminClient({**connection.librdkafka_options(), "log_level": 0})

    def of(self, view: SourceView) -> dict[Place, int]:
        """The end of each partition; those of which Kafka does not tell it now are left out."""
        asked = {
            TopicPartition(topic.name, number): OffsetSpec.latest()
            for topic in view.topics.values()
            for number in range(len(topic.first_offsets))
        }
        if not asked:
            return {}
        answers = self._client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_SECONDS
        )
        found: dict[Place, int] = {}
        for topic_partition, answer in answers.items():
            try:
                found[topic_partition.topic, topic_partition.partition] = answer.result(_SECONDS + 1).offset
            except (KafkaException, TimeoutError):
                continue  # the turn that reads the partition says why
        return found
