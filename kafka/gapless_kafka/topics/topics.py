"""Queries about topics: IDs, partitions, offsets and cleanup policies; must not know what the results are for."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import GaplessError, SourceUnreachableError
from gapless_api.gaps.cleanup_policy import UNKNOWN, normal_policy
from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.client import REQUEST_TIMEOUT_SECONDS, KafkaClient
from gapless_kafka.access.errors import NO_TOPIC, fault_of
from gapless_kafka.topics.topic_ids import topic_id_in, topic_id_query, url_safe_topic_id

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_MAX_ATTEMPTS, _RETRY_SECONDS = 20, 0.25
"""A new partition leader returns transient errors at first."""


class Topics:
    """The topics of one cluster, as a connected client sees them."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    def cluster_id(self) -> str:
        """Return the cluster ID; empty if the cluster has none."""
        return self._metadata("").cluster_id or ""

    def topic_id(self, topic: str) -> str | None:
        """Return the topic ID; ``None`` where brokers have none, or do not return it.

        Raises:
            SourceUnreachableError: Kafka does not respond in time.
        """
        query = topic_id_query(self._client.connection)  # keeps its client, and with it the request, alive
        response = query(topic)
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while not response.done():
            self._client.pulse()
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"Kafka at {self._client.connection.bootstrap_servers} does not return the topic ID of {topic}; "
                    f"check the brokers and run again."
                )
            time.sleep(0.01)
        topic_id = topic_id_in(response)
        return None if topic_id is None else url_safe_topic_id(topic_id)

    def exists(self, topic: str) -> bool:
        """Whether `topic` exists. Raises SourceUnreachableError when Kafka does not respond."""
        error = self._metadata(topic).topics[topic].error
        return error is None or fault_of(error.name()) is not NO_TOPIC

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of `topic`.

        Raises:
            ConfigurationError: the topic does not exist.
            SourceUnreachableError: Kafka does not respond, or denies access to the topic.
        """
        error = None
        for _ in range(_MAX_ATTEMPTS):
            cluster = self._metadata(topic)
            self._client.check_brokers(cluster)
            metadata = cluster.topics[topic]
            error = metadata.error
            if error is None:
                return len(metadata.partitions)
            if not fault_of(error.name()).is_transient:
                break
            time.sleep(_RETRY_SECONDS)
        raise self._client.error_for(topic, error)

    def topic_error(self, topic: str) -> KafkaError | None:
        """Return the current error of `topic`, if a broker reports one within two seconds."""
        with suppress(KafkaException):
            error: KafkaError | None = self._client.consumer.list_topics(topic, timeout=2.0).topics[topic].error
            return error
        return None

    def watermarks(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return the log start offset of the partition, and the offset after its last one."""
        partition = KafkaPartition(*topic_partition)
        low_and_high: tuple[int, int] = self._client.call(
            lambda consumer: consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_SECONDS, cached=False)
        )
        return low_and_high

    def first_offset_since(self, topic_partition: TopicPartition, timestamp_ms: int, end: int) -> int:
        """Return the first offset whose timestamp is `timestamp_ms` or later; `end` when there is none."""
        times = [KafkaPartition(*topic_partition, max(timestamp_ms, 0))]
        (partition,) = self._client.call(
            lambda consumer: consumer.offsets_for_times(times, timeout=REQUEST_TIMEOUT_SECONDS)
        )
        if partition.error is not None:
            raise self._client.error_for(topic_partition[0], partition.error)
        return end if partition.offset < 0 else int(partition.offset)

    def _metadata(self, topic: str) -> ClusterMetadata:
        metadata: ClusterMetadata = self._client.call(
            lambda consumer: consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS)
        )
        return metadata


def cleanup_policy(connection: KafkaConnection, topic: str, *, timeout_seconds: float) -> str:
    """Read the cleanup policy of an existing topic; ``unknown`` when Kafka does not return it.

    Needs the operation DescribeConfigs on the topic. No failure raises an error: the topic may be readable all the
    same.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # noqa: PLC0415 -- slow to load

    resource = ConfigResource(ResourceType.TOPIC, topic)

    def request(admin: Admin) -> Any:
        futures = admin.client.describe_configs([resource], request_timeout=admin.request_seconds)
        return admin.result(futures[resource], f"the topic {topic}")

    try:
        entries = call_admin(connection, request, timeout_seconds=timeout_seconds)
    except GaplessError:
        return UNKNOWN
    policy = entries.get("cleanup.policy")
    return normal_policy(policy.value or "") if policy is not None else UNKNOWN
