"""Answers of Kafka's client that are none, although it reports no error.

Must not know why a request is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ClusterMetadata, ListOffsetsResultInfo

Found = TypeVar("Found", bound="ListOffsetsResultInfo")
_NO_TOPIC = ""
"""No broker has or creates it. Without a name all topics would be described; each other name may be created."""
_NO_RECORD = -1
"""Kafka's answer where no record has the timestamp that was asked for."""


def cluster_metadata(client: AdminClient | Consumer, *, timeout_seconds: float) -> ClusterMetadata:
    """Return the ID of the cluster, and its registered brokers, at least one.

    DescribeCluster of Kafka's client is not used for that: it aborts the process at an answer without brokers, as Kafka
    gives while none is registered, after a start of the cluster or when no broker has reached the controller for a
    while.

    Raises:
        KafkaException: Kafka does not answer in time, or no broker is registered.
    """
    found: ClusterMetadata = client.list_topics(_NO_TOPIC, timeout=timeout_seconds)
    if not found.brokers:
        raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "no broker is registered"))
    return found


def listed(found: Found) -> Found:
    """Return a result of ListOffsets if the leader of the partition has answered.

    When a leader does not answer, or dies while it is asked, Kafka's client returns a result without an error, with
    the offset -1001.

    Raises:
        KafkaException: the leader has not answered; transient.
    """
    if found.offset < _NO_RECORD:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "the leader of the partition does not answer"))
    return found
