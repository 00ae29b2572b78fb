"""Owns what is asked about topics: ids, partitions, offsets and policies; must not know what the answers are for."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_api.gaps.cleanup_policy import UNKNOWN, normal_policy
from gapless_kafka.access.client import ANSWER_SECONDS
from gapless_kafka.access.errors import NO_TOPIC, fault_of
from gapless_kafka.topics.topic_ids import as_tools_write, topic_id_in, topic_id_query

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.client import KafkaClient
    from gapless_kafka.access.connection import KafkaConnection

_TRIES, _TRY_AGAIN_SECONDS = 20, 0.25
"""A broker that has just begun to lead answers with passing errors."""


class Topics:
    """The topics of one cluster, as a connected client sees them."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    def cluster_id(self) -> str:
        """Kafka's id of the cluster; empty if it has none."""
        return self._client.ask(lambda consumer: consumer.list_topics("", timeout=ANSWER_SECONDS)).cluster_id or ""

    def topic_id(self, topic: str) -> str | None:
        """Kafka's own id of `topic`; ``None`` where brokers have none, or do not tell.

        Raises:
            SourceUnreachableError: Kafka does not answer in time.
        """
        ask = topic_id_query(self._client.connection)  # held on to: with its client the question would go
        answer = ask(topic)
        deadline = time.monotonic() + ANSWER_SECONDS
        while not answer.done():
            self._client.pulse()
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"Kafka at {self._client.connection.bootstrap_servers} does not return the topic ID of {topic}; "
                    f"check the brokers and run again."
                )
            time.sleep(0.01)
        found = topic_id_in(answer)
        return None if found is None else as_tools_write(found)

    def exists(self, topic: str) -> bool:
        """Whether there is a `topic`. Raises SourceUnreachableError when Kafka does not answer."""
        found = self._client.ask(lambda consumer: consumer.list_topics(topic, timeout=ANSWER_SECONDS)).topics[topic]
        return found.error is None or fault_of(found.error.name()) is not NO_TOPIC

    def partition_count(self, topic: str) -> int:
        """How many partitions `topic` has.

        Raises:
            ConfigurationError: there is no such topic.
            SourceUnreachableError: Kafka does not answer or does not let us see the topic.
        """
        error = None
        for _ in range(_TRIES):
            cluster = self._client.ask(lambda consumer: consumer.list_topics(topic, timeout=ANSWER_SECONDS))
            self._client.check_brokers(cluster)
            found = cluster.topics[topic]
            error = found.error
            if error is None:
                return len(found.partitions)
            if not fault_of(error.name()).passes:
                break
            time.sleep(_TRY_AGAIN_SECONDS)
        raise self._client.refusal(topic, error)

    def error_of(self, topic: str) -> KafkaError | None:
        """What is wrong with `topic` right now, as far as a broker says so soon."""
        with suppress(KafkaException):
            found: KafkaError | None = self._client.consumer.list_topics(topic, timeout=2.0).topics[topic].error
            return found
        return None

    def watermarks(self, place: TopicPartition) -> tuple[int, int]:
        """The partition's first offset, and the one after its last."""
        partition = KafkaPartition(*place)
        found: tuple[int, int] = self._client.ask(
            lambda consumer: consumer.get_watermark_offsets(partition, timeout=ANSWER_SECONDS, cached=False)
        )
        return found

    def first_offset_since(self, place: TopicPartition, timestamp_ms: int, end: int) -> int:
        """The earliest offset whose timestamp is `timestamp_ms` or later; `end` when there is none."""
        times = [KafkaPartition(*place, max(timestamp_ms, 0))]
        found = self._client.ask(lambda consumer: consumer.offsets_for_times(times, timeout=ANSWER_SECONDS))[0]
        if found.error is not None:
            raise self._client.refusal(place[0], found.error)
        return end if found.offset < 0 else int(found.offset)


def cleanup_policy(connection: KafkaConnection, topic: str, *, timeout_seconds: float) -> str:
    """Read the policy of `topic`, which must exist; ``unknown`` when Kafka does not tell, such as for lack of a right.

    Needs the operation DescribeConfigs on the topic. No failure here is an error: the topic may well be readable.
    """
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # noqa: PLC0415 -- slow to load

    admin = AdminClient({**connection.librdkafka_options(), "error_cb": _ignored, "log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        told = admin.describe_configs([resource], request_timeout=timeout_seconds)[resource].result()
    except KafkaException:
        return UNKNOWN
    found = told.get("cleanup.policy")
    return normal_policy(found.value or "") if found is not None else UNKNOWN


def _ignored(_error: Any) -> None:
    """The answer says what went wrong."""
