"""The configuration of topics: the values set on the topic itself, the retention time, and compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

TOPIC_SOURCES = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value})
"""The sources of values that are set on the topic itself; the client returns the member or its number."""
_DELETE_RETENTION_MS = 86_400_000
"""Kafka's default."""


@dataclass(frozen=True, slots=True)
class TopicConfiguration:
    """The configuration of a topic."""

    own: Mapping[str, str]
    """The values set on the topic itself, without defaults of the brokers."""
    retention_seconds: float | None
    """``None`` if records do not expire by time."""
    retention_bytes: int | None
    """``None`` if records do not expire by the size of a partition."""
    tombstone_seconds: float | None
    """How long compaction keeps tombstones (``delete.retention.ms``); ``None`` if the topic is not compacted."""


def topic_configurations(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float
) -> dict[str, TopicConfiguration | None]:
    """Return the configuration of each topic; ``None`` without the operation DescribeConfigs.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
    """
    if not topics:
        return {}
    return call_admin(connection, lambda admin: _configurations(admin, topics), timeout_seconds=timeout_seconds)


def _configurations(admin: Admin, topics: Sequence[str]) -> dict[str, TopicConfiguration | None]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    futures = admin.client.describe_configs(resources, request_timeout=admin.request_seconds)
    configurations: dict[str, TopicConfiguration | None] = {}
    for resource, future in futures.items():
        try:
            configurations[resource.name] = _configuration(admin.response(future))
        except KafkaException as error:
            if fault_of(error.args[0].name()) not in {DENIED, NO_TOPIC}:
                admin.result(future, f"the topic {resource.name}")  # which raises
            configurations[resource.name] = None
    return configurations


def _configuration(entries: Mapping[str, Any]) -> TopicConfiguration:
    values = {name: entry.value or "" for name, entry in entries.items()}
    own = {name: values[name] for name in sorted(entries) if entries[name].source in TOPIC_SOURCES and values[name]}
    expires = "delete" in values.get("cleanup.policy", "delete")
    milliseconds = int(values.get("retention.ms") or -1) if expires else -1
    size = int(values.get("retention.bytes") or -1) if expires else -1
    return TopicConfiguration(
        own,
        retention_seconds=milliseconds / 1000 if milliseconds >= 0 else None,
        retention_bytes=size if size >= 0 else None,
        tombstone_seconds=tombstone_seconds_of(values),
    )


def tombstone_seconds_of(values: Mapping[str, str]) -> float | None:
    """Return how long compaction keeps tombstones of a topic with these values; ``None`` if it is not compacted."""
    if "compact" not in {word.strip() for word in values.get("cleanup.policy", "").split(",")}:
        return None
    return int(values.get("delete.retention.ms") or _DELETE_RETENTION_MS) / 1000
