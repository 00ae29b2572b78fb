"""Owns the configuration of topics: what they have of their own, and how long they keep records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from gapless_kafka.access.admin import ask
from gapless_kafka.access.errors import DENIED, NO_TOPIC, fault_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_kafka.access.admin import Admin
    from gapless_kafka.access.connection import KafkaConnection

_OWN = {ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DYNAMIC_TOPIC_CONFIG}


@dataclass(frozen=True, slots=True)
class TopicConfiguration:
    """The configuration of a topic."""

    own: Mapping[str, str]
    """Without the brokers' defaults."""
    retention_seconds: float | None
    """How long records are kept; ``None`` for ever, as far as time matters."""


def topic_configurations(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float
) -> dict[str, TopicConfiguration | None]:
    """The settings of each topic; ``None`` where Kafka does not tell us (it needs the operation DescribeConfigs).

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """
    if not topics:
        return {}
    return ask(connection, lambda admin: _configurations(admin, topics), timeout_seconds=timeout_seconds)


def _configurations(admin: Admin, topics: Sequence[str]) -> dict[str, TopicConfiguration | None]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    asked = admin.client.describe_configs(resources, request_timeout=admin.timeout_seconds)
    found: dict[str, TopicConfiguration | None] = {}
    for resource, future in asked.items():
        try:
            found[resource.name] = _configuration(future.result(timeout=admin.timeout_seconds))
        except KafkaException as error:
            if fault_of(error.args[0].name()) not in {DENIED, NO_TOPIC}:
                admin.answer(future, f"the topic {resource.name}")  # which raises
            found[resource.name] = None
    return found


def _configuration(entries: Mapping[str, Any]) -> TopicConfiguration:
    values = {name: entry.value or "" for name, entry in entries.items()}
    own = {name: values[name] for name in sorted(entries) if entries[name].source in _OWN and values[name]}
    milliseconds = int(values.get("retention.ms") or -1)
    keeps = "delete" not in values.get("cleanup.policy", "delete") or milliseconds < 0
    return TopicConfiguration(own, None if keeps else milliseconds / 1000)
