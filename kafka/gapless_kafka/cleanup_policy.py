"""Owns how the cleanup.policy of a topic is read; what it means stands in `gapless_api.gaps.cleanup_policy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from gapless_api.gaps.cleanup_policy import UNKNOWN, normal_policy

if TYPE_CHECKING:
    from gapless_kafka.connection import KafkaConnection


def cleanup_policy(connection: KafkaConnection, topic: str, *, timeout_seconds: float) -> str:
    """Read the policy of `topic`, which must exist; ``unknown`` when Kafka does not tell, such as for lack of a right.

    Needs the operation DescribeConfigs on the topic. No failure here is an error: the topic may well be readable.
    """
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
