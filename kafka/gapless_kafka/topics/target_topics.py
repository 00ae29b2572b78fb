"""The descriptions of topics that a writing program needs, and how it creates and configures topics.

A topic that does not exist is not an error here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_kafka.access.admin import ELECTION_SECONDS, Admin, call_admin
from gapless_kafka.access.errors import DENIED, LOGIN, TRANSIENT, UNREACHABLE, TopicMissingError, fault_of, reason_in
from gapless_kafka.topics.topic_configuration import TOPIC_SOURCES
from gapless_kafka.topics.topic_ids import described_topic_id

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

_RETRY_SECONDS = 0.2
_CREATION_SECONDS = 60.0
"""Limit for creating a topic or partitions: brokers wait 30 s for a controller that hangs, before they ask another."""
_BROKER_DEFAULTS = {
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "min.insync.replicas": "min.insync.replicas",
    "default.replication.factor": "default.replication.factor",
}
"""Broker settings that hold the defaults, by topic setting."""
_RETENTION_UNITS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}


class DeniedError(SourceUnreachableError):
    """Kafka denies a change of a topic."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """ID and size of a cluster."""

    id: str
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as a writing program needs it."""

    name: str
    id: str
    """Empty where brokers have none."""
    partitions: int
    replicas: int
    """The smallest replication factor of its partitions."""
    leaderless: tuple[int, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    """All effective settings; empty without the operation DescribeConfigs."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The settings whose values are set on the topic itself."""
    operations: frozenset[str] | None = None
    """The authorized operations of this user, such as WRITE; ``None`` when Kafka does not return them."""


class TargetTopics:
    """The topics of one cluster."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is sent yet; `timeout_seconds` is the limit for each request."""
        self._connection = connection
        self._timeout = timeout_seconds

    def cluster(self) -> Cluster:
        """Describe the cluster. Raises SourceUnreachableError when it is unreachable or refuses the connection."""
        found = call_admin(self._connection, Admin.metadata, timeout_seconds=self._timeout)
        self._connection.check_brokers((broker.host, broker.port) for broker in found.brokers.values())
        return Cluster(found.cluster_id or "", len(found.brokers))

    def describe(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Describe the topics that exist. Raises SourceUnreachableError."""
        distinct = list(dict.fromkeys(names))
        if not distinct:
            return {}
        return call_admin(self._connection, partial(self._describe, distinct), timeout_seconds=self._timeout)

    def defaults(self) -> dict[str, str]:
        """Return the default settings of new topics, and ``default.replication.factor``.

        Empty without the operation DescribeConfigs on the cluster.
        """
        attempts = count()

        def request(admin: Admin) -> dict[str, str]:
            brokers = sorted(admin.metadata().brokers)  # one of them may have died
            resource = ConfigResource(ResourceType.BROKER, str(brokers[next(attempts) % len(brokers)]))
            future = admin.client.describe_configs([resource], request_timeout=admin.request_seconds)[resource]
            entries = _settings(admin, future, resource.name)
            values = {name: entry.value for name, entry in entries.items() if entry.value is not None}
            for name, milliseconds in _RETENTION_UNITS.items():
                if "log.retention.ms" not in values and name in values:
                    values["log.retention.ms"] = str(int(values[name]) * milliseconds)
            return {setting: values[name] for setting, name in _BROKER_DEFAULTS.items() if name in values}

        return call_admin(self._connection, request, timeout_seconds=self._timeout)

    def end_offset(self, name: str, partition: int, *, committed: bool) -> int:
        """Return the end offset of a partition.

        Args:
            name: of the topic, which exists.
            partition: of the topic.
            committed: ``True`` for the last stable offset, ``False`` for the high watermark.

        Raises:
            SourceUnreachableError: Kafka does not respond, or denies the request.
        """
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        topic_partition = TopicPartition(name, partition)

        def request(admin: Admin) -> int:
            futures = admin.client.list_offsets(
                {topic_partition: OffsetSpec.latest()},
                isolation_level=isolation,
                request_timeout=admin.request_seconds,
            )
            return int(admin.offset(futures[topic_partition], topic_partition).offset)

        return call_admin(self._connection, request, timeout_seconds=self._timeout)

    def create(
        self, name: str, partitions: int, configuration: Mapping[str, str], *, replication_factor: int = -1
    ) -> None:
        """Create a topic, and wait for the leaders of its partitions; an existing topic is not changed.

        Args:
            name: of the topic.
            partitions: number of partitions.
            configuration: settings of the topic itself.
            replication_factor: -1 for the default of the brokers.

        Raises:
            ConfigurationError: Kafka rejects a setting.
            SourceUnreachableError: Kafka denies the request or does not respond.
        """
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configuration)
        )

        def request(admin: Admin) -> None:
            futures = admin.client.create_topics(
                [topic], operation_timeout=ELECTION_SECONDS, request_timeout=admin.request_seconds
            )
            error = _error_of(admin, futures[name], f"the topic {name}")
            if error is not None and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._creation_error(name, error)

        call_admin(self._connection, request, timeout_seconds=max(self._timeout, _CREATION_SECONDS))
        self._wait_for_leaders(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Add partitions to a topic, and wait for their leaders; a topic with enough partitions is not changed.

        Args:
            name: of the topic.
            partitions: the new total.

        Raises:
            ConfigurationError: Kafka does not add them.
            SourceUnreachableError: Kafka denies the request or does not respond.
        """

        def request(admin: Admin) -> None:
            futures = admin.client.create_partitions(
                [NewPartitions(name, partitions)],
                operation_timeout=ELECTION_SECONDS,
                request_timeout=admin.request_seconds,
            )
            error = _error_of(admin, futures[name], f"the topic {name}")
            if error is None:
                return
            description = self.describe([name]).get(name)
            if description is None or description.partitions < partitions:
                raise self._growth_error(name, partitions, error)

        call_admin(self._connection, request, timeout_seconds=max(self._timeout, _CREATION_SECONDS))
        self._wait_for_leaders(name, partitions)

    def configure(self, name: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change settings of a topic; `unset` settings return to their defaults.

        Raises:
            ConfigurationError: Kafka rejects a setting.
            SourceUnreachableError: Kafka denies the request or does not respond.
        """
        changes = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in values.items()
        ]
        changes += [ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE) for setting in unset]
        if not changes:
            return
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)

        def request(admin: Admin) -> None:
            future = admin.client.incremental_alter_configs([resource], request_timeout=admin.request_seconds)[resource]
            error = _error_of(admin, future, f"the topic {name}")
            if error is not None:
                raise ConfigurationError(
                    f"Kafka at {self._connection.bootstrap_servers} refuses to change the settings of the topic {name} "
                    f"({reason_in(error.str())}); grant this user the operation AlterConfigs on it, or change "
                    f"{', '.join(change.name for change in changes)} with kafka-configs.sh."
                )

        call_admin(self._connection, request, timeout_seconds=self._timeout)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + ELECTION_SECONDS
        while True:
            topic = self.describe([name]).get(name)
            if topic is not None and topic.partitions >= partitions and not topic.leaderless:
                return
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"New partitions of the topic {name} have no leader; check the brokers and run again."
                )
            time.sleep(_RETRY_SECONDS)

    def _describe(self, names: Sequence[str], admin: Admin) -> dict[str, TopicDescription]:
        topics = admin.client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=admin.request_seconds
        )
        resources = {name: ConfigResource(ResourceType.TOPIC, name) for name in names}
        configurations = admin.client.describe_configs(list(resources.values()), request_timeout=admin.request_seconds)
        descriptions = {}
        for name in names:
            try:
                topic = admin.result(topics[name], f"the topic {name}")
            except TopicMissingError:
                continue
            descriptions[name] = _description(name, topic, _settings(admin, configurations[resources[name]], name))
        return descriptions

    def _creation_error(self, name: str, error: KafkaError) -> ConfigurationError | DeniedError:
        servers, reason = self._connection.bootstrap_servers, reason_in(error.str())
        if fault_of(error.name()) is DENIED:
            return DeniedError(
                f"Kafka at {servers} denies creating the topic {name}; grant this user the operation Create on it, or "
                f"create it with kafka-topics.sh."
            )
        return ConfigurationError(
            f"Kafka at {servers} refuses to create the topic {name} ({reason}); create it with kafka-topics.sh and run "
            f"again."
        )

    def _growth_error(self, name: str, partitions: int, error: KafkaError) -> ConfigurationError | DeniedError:
        servers, reason = self._connection.bootstrap_servers, reason_in(error.str())
        if fault_of(error.name()) is DENIED:
            return DeniedError(
                f"Kafka at {servers} denies adding partitions to the topic {name}; grant this user the operation Alter "
                f"on it, or increase it to {partitions} partitions with kafka-topics.sh."
            )
        return ConfigurationError(
            f"Kafka at {servers} refuses to increase the topic {name} to {partitions} partitions ({reason}); add them "
            f"with kafka-topics.sh, or exclude the topic."
        )


def _description(name: str, topic: Any, entries: Mapping[str, Any]) -> TopicDescription:
    effective = {setting: entry for setting, entry in entries.items() if entry.value is not None}
    return TopicDescription(
        name=name,
        id=described_topic_id(topic),
        partitions=len(topic.partitions),
        replicas=min((len(partition.replicas) for partition in topic.partitions), default=0),
        leaderless=tuple(
            partition.id for partition in topic.partitions if partition.leader is None or partition.leader.id < 0
        ),
        configuration={setting: entry.value for setting, entry in effective.items()},
        own={setting: entry.value for setting, entry in effective.items() if entry.source in TOPIC_SOURCES},
        operations=None
        if topic.authorized_operations is None
        else frozenset(operation.name for operation in topic.authorized_operations),
    )


def _settings(admin: Admin, future: Any, name: str) -> dict[str, Any]:
    """Return the settings in a response; empty without the operation DescribeConfigs."""
    return {} if _error_of(admin, future, f"the settings of {name}") is not None else dict(future.result())


def _error_of(admin: Admin, future: Any, subject: str) -> KafkaError | None:
    """Wait for a response, and return its error if that concerns the request; ``None`` for success.

    Raises:
        SourceUnreachableError: Kafka does not respond, or refuses the connection.
    """
    try:
        admin.response(future)
    except KafkaException as error:
        reported: KafkaError = error.args[0]
        if fault_of(reported.name()) in {UNREACHABLE, LOGIN, TRANSIENT}:
            admin.result(future, subject)  # which raises
        return reported
    return None
