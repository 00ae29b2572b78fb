"""Which brokers of a cluster are registered, and its ID.

DescribeCluster of Kafka's client is not used for that: it aborts the process at an answer without brokers, as Kafka
gives while none is registered, after a start of the cluster or when no broker has reached the controller for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ClusterMetadata

_NO_TOPIC = ""
"""No broker has or creates it. Without a name all topics would be described; each other name may be created."""


def cluster_metadata(client: AdminClient | Consumer, *, timeout_seconds: float) -> ClusterMetadata:
    """Return the ID of the cluster, and its registered brokers, at least one.

    Raises:
        KafkaException: Kafka does not answer in time, or no broker is registered.
    """
    found: ClusterMetadata = client.list_topics(_NO_TOPIC, timeout=timeout_seconds)
    if not found.brokers:
        raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "no broker is registered"))
    return found
