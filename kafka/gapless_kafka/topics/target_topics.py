"""Owns what a program that writes must know about topics, and what it changes: creation and settings.

A topic that does not exist is no error here.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_kafka.access.admin import ask
from gapless_kafka.access.errors import DENIED, LOGIN, PASSING, UNREACHABLE, TopicMissingError, fault_of, reason_in
from gapless_kafka.topics.topic_ids import as_tools_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_kafka.access.admin import Admin
    from gapless_kafka.access.connection import KafkaConnection

_PAUSE_SECONDS = 0.2
_LED_SECONDS = 30.0
"""A new topic has a leader for each partition by then."""
_OWN = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
_OF_BROKERS = {
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
"""Settings of a topic with the brokers' names of their defaults, and how many replicas it gets."""
_RETENTION_UNITS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}


class DeniedError(SourceUnreachableError):
    """Kafka denies a change of a topic."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known about a cluster."""

    id: str
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as a program that writes sees it."""

    name: str
    id: str
    """Empty where brokers have none."""
    partitions: int
    replicas: int
    """The fewest that a partition has."""
    leaderless: tuple[int, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Every setting in force; empty when Kafka does not tell, for lack of the operation DescribeConfigs."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The settings for which the topic has a value of its own."""
    operations: frozenset[str] | None = None
    """What this user may do, such as WRITE; ``None`` when Kafka does not tell."""


class TargetTopics:
    """The topics of one cluster."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is asked yet; `timeout_seconds` is how long each answer may take."""
        self._connection = connection
        self._timeout = timeout_seconds

    def cluster(self) -> Cluster:
        """The cluster. Raises SourceUnreachableError when it cannot be reached or refuses us."""

        def question(admin: Admin) -> Any:
            return admin.answer(admin.client.describe_cluster(request_timeout=self._timeout), "the cluster")

        found = ask(self._connection, question, timeout_seconds=self._timeout)
        self._connection.check_brokers((node.host, node.port) for node in found.nodes)
        return Cluster(found.cluster_id or "", len(found.nodes))

    def described(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Those of the topics that exist. Raises SourceUnreachableError."""
        distinct = list(dict.fromkeys(names))
        if not distinct:
            return {}
        return ask(self._connection, partial(self._described, distinct), timeout_seconds=self._timeout)

    def defaults(self) -> dict[str, str]:
        """The settings that a new topic has without values of its own, and ``default.replication.factor``.

        Empty when Kafka does not tell.
        """

        def question(admin: Admin) -> dict[str, str]:
            cluster = admin.answer(admin.client.describe_cluster(request_timeout=self._timeout), "the cluster")
            resource = ConfigResource(ResourceType.BROKER, str(cluster.nodes[0].id))
            told = admin.client.describe_configs([resource], request_timeout=self._timeout)[resource]
            entries = _settings(admin, told, resource.name)
            values = {name: entry.value for name, entry in entries.items() if entry.value is not None}
            for name, milliseconds in _RETENTION_UNITS.items():
                if "log.retention.ms" not in values and name in values:
                    values["log.retention.ms"] = str(int(values[name]) * milliseconds)
            return {setting: values[name] for setting, name in _OF_BROKERS.items() if name in values}

        return ask(self._connection, question, timeout_seconds=self._timeout)

    def end_offset(self, name: str, partition: int, *, committed: bool) -> int:
        """The offset after the last record, or of the first transaction that is open.

        Args:
            name: of the topic, which exists.
            partition: of it.
            committed: ``False`` to go behind transactions that are open.

        Raises:
            SourceUnreachableError: Kafka does not answer, or denies it.
        """
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        places = [TopicPartition(name, partition)]

        def question(admin: Admin) -> int:
            return _sum(admin, places, OffsetSpec.latest(), isolation)

        return ask(self._connection, question, timeout_seconds=self._timeout)

    def offset_count(self, name: str, partitions: int) -> int:
        """How many offsets the topic holds; there are not more records than that. Raises SourceUnreachableError."""
        places = [TopicPartition(name, number) for number in range(partitions)]

        def question(admin: Admin) -> int:
            ends = _sum(admin, places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
            return ends - _sum(admin, places, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

        return ask(self._connection, question, timeout_seconds=self._timeout)

    def create(
        self, name: str, partitions: int, configuration: Mapping[str, str], *, replication_factor: int = -1
    ) -> None:
        """Create a topic, and wait for the leaders of its partitions; one that exists already is left as it is.

        Args:
            name: of the topic.
            partitions: how many.
            configuration: settings of its own.
            replication_factor: -1 for that of the brokers.

        Raises:
            ConfigurationError: Kafka refuses a setting.
            SourceUnreachableError: Kafka denies it or does not answer.
        """
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configuration)
        )

        def question(admin: Admin) -> None:
            asked = admin.client.create_topics([topic], operation_timeout=_LED_SECONDS, request_timeout=self._timeout)
            error = _error_of(admin, asked[name], f"the topic {name}")
            if error is not None and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._refused_creation(name, error)

        ask(self._connection, question, timeout_seconds=self._timeout)
        self._wait_for_leaders(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, and wait for their leaders; one that has as many is left as it is.

        Args:
            name: of the topic.
            partitions: how many it has afterwards.

        Raises:
            ConfigurationError: Kafka does not add them.
            SourceUnreachableError: Kafka denies it or does not answer.
        """

        def question(admin: Admin) -> None:
            asked = admin.client.create_partitions(
                [NewPartitions(name, partitions)], operation_timeout=_LED_SECONDS, request_timeout=self._timeout
            )
            error = _error_of(admin, asked[name], f"the topic {name}")
            if error is None:
                return
            found = self.described([name]).get(name)
            if found is None or found.partitions < partitions:
                raise self._refused_growth(name, partitions, error)

        ask(self._connection, question, timeout_seconds=self._timeout)
        self._wait_for_leaders(name, partitions)

    def configure(self, name: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change settings of a topic; `unset` ones get their default again.

        Raises:
            ConfigurationError: Kafka refuses a setting.
            SourceUnreachableError: Kafka denies it or does not answer.
        """
        changes = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in values.items()
        ]
        changes += [ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE) for setting in unset]
        if not changes:
            return
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)

        def question(admin: Admin) -> None:
            asked = admin.client.incremental_alter_configs([resource], request_timeout=self._timeout)[resource]
            error = _error_of(admin, asked, f"the topic {name}")
            if error is not None:
                raise ConfigurationError(
                    f"Kafka at {self._connection.bootstrap_servers} does not change the settings of the topic {name} "
                    f"({reason_in(error.str())}); grant this user the operation AlterConfigs on it, or change "
                    f"{', '.join(change.name for change in changes)} yourself."
                )

        ask(self._connection, question, timeout_seconds=self._timeout)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + _LED_SECONDS
        while True:
            found = self.described([name]).get(name)
            if found is not None and found.partitions >= partitions and not found.leaderless:
                return
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"The topic {name} has no leader for its new partitions yet; check the brokers and run again."
                )
            time.sleep(_PAUSE_SECONDS)

    def _described(self, names: Sequence[str], admin: Admin) -> dict[str, TopicDescription]:
        asked = admin.client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self._timeout
        )
        resources = {name: ConfigResource(ResourceType.TOPIC, name) for name in names}
        told = admin.client.describe_configs(list(resources.values()), request_timeout=self._timeout)
        found = {}
        for name in names:
            try:
                topic = admin.answer(asked[name], f"the topic {name}")
            except TopicMissingError:
                continue
            found[name] = _description(name, topic, _settings(admin, told[resources[name]], name))
        return found

    def _refused_creation(self, name: str, error: KafkaError) -> ConfigurationError | DeniedError:
        servers, reason = self._connection.bootstrap_servers, reason_in(error.str())
        if fault_of(error.name()) is DENIED:
            return DeniedError(
                f"Kafka at {servers} denies creating the topic {name}; grant this user the operation Create on it, or "
                f"create it yourself."
            )
        return ConfigurationError(
            f"Kafka at {servers} does not create the topic {name} ({reason}); create it yourself and run again."
        )

    def _refused_growth(self, name: str, partitions: int, error: KafkaError) -> ConfigurationError | DeniedError:
        servers, reason = self._connection.bootstrap_servers, reason_in(error.str())
        if fault_of(error.name()) is DENIED:
            return DeniedError(
                f"Kafka at {servers} denies adding partitions to the topic {name}; grant this user the operation Alter "
                f"on it, or give it {partitions} partitions yourself."
            )
        return ConfigurationError(
            f"Kafka at {servers} does not give the topic {name} {partitions} partitions ({reason}); add them yourself, "
            f"or leave the topic out."
        )


def _sum(admin: Admin, places: Sequence[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel) -> int:
    asked = admin.client.list_offsets(
        dict.fromkeys(places, spec), isolation_level=isolation, request_timeout=admin.timeout_seconds
    )
    return sum(int(admin.answer(asked[place], f"the topic {place.topic}").offset) for place in places)


def _description(name: str, topic: Any, entries: Mapping[str, Any]) -> TopicDescription:
    known = {setting: entry for setting, entry in entries.items() if entry.value is not None}
    identity = as_tools_write(str(topic.topic_id or ""))
    return TopicDescription(
        name=name,
        id=identity if identity.strip("A") else "",
        partitions=len(topic.partitions),
        replicas=min((len(partition.replicas) for partition in topic.partitions), default=0),
        leaderless=tuple(
            partition.id for partition in topic.partitions if partition.leader is None or partition.leader.id < 0
        ),
        configuration={setting: entry.value for setting, entry in known.items()},
        own={setting: entry.value for setting, entry in known.items() if entry.source in {_OWN, ConfigSource(_OWN)}},
        operations=None
        if topic.authorized_operations is None
        else frozenset(operation.name for operation in topic.authorized_operations),
    )


def _settings(admin: Admin, future: Any, name: str) -> dict[str, Any]:
    """The settings in an answer; empty when Kafka does not tell us, which needs the operation DescribeConfigs."""
    return {} if _error_of(admin, future, f"the settings of {name}") is not None else dict(future.result())


def _error_of(admin: Admin, future: Any, what: str) -> KafkaError | None:
    """Wait for an answer, and return the error it holds if that says something about the request.

    Raises:
        SourceUnreachableError: Kafka does not answer, or refuses us.
    """
    try:
        future.result(timeout=admin.timeout_seconds)
    except FutureTimeoutError:
        raise admin.unreachable() from None
    except KafkaException as error:
        reported: KafkaError = error.args[0]
        if fault_of(reported.name()) in {UNREACHABLE, LOGIN, PASSING}:
            admin.answer(future, what)  # which raises
        return reported
    return None
