"""Owns how a cluster is observed with an admin client: metadata, settings, operations and offsets.

What the cluster does not tell becomes `Unknown`; only a cluster that does not answer at all is an error.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from gapless_kafka.access.admin import Admin, call_admin
from gapless_kafka.access.errors import DENIED, NO_TOPIC, TRANSIENT, fault_of, reason_in
from gapless_kafka.doctor.observed import AccessRule, Broker, Partition, PartitionOffsets, TopicDetails, Unknown
from gapless_kafka.topics.topic_ids import url_safe_topic_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition as Place
    from gapless_kafka.access.connection import KafkaConnection

_AGAIN_SECONDS = 0.25
_MOST_BROKERS = 12
"""Of so many brokers the settings are read."""


class ClusterObserver:
    """One cluster. The first call tells whether it can be reached."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is asked yet; `timeout_seconds` is how long each answer may take."""
        self._connection = connection
        self._timeout = timeout_seconds
        self._admin: Admin | None = None

    def cluster(self) -> tuple[str, frozenset[str] | Unknown]:
        """The cluster's id, and what this user may do with it.

        Raises:
            SourceUnreachableError: no broker answers, or the brokers refuse us.
            ConfigurationError: a broker is at a local address and may not be.
        """
        self._connection.check_bootstrap_servers()

        def request(admin: Admin) -> Any:
            asked = admin.client.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout)
            return admin.result(asked, "the cluster")

        found = call_admin(self._connection, request, timeout_seconds=self._timeout)
        self._connection.check_brokers((node.host, node.port) for node in found.nodes)
        return found.cluster_id or "", _operations(found.authorized_operations)

    def metadata(self) -> tuple[dict[int, Broker], dict[str, dict[int, Partition]]]:
        """The brokers that run, and the partitions of every topic that the cluster shows us. Raises GaplessError."""
        try:
            found = self._used().client.list_topics(timeout=self._timeout)
        except KafkaException as error:
            told = error.args[0]
            raise fault_of(told.name()).error(
                self._connection.bootstrap_servers, "the list of topics", reason=reason_in(told.str())
            ) from None
        brokers = {number: Broker(number, each.host, each.port) for number, each in found.brokers.items()}
        self._connection.check_brokers((broker.host, broker.port) for broker in brokers.values())
        return brokers, {
            name: {
                number: Partition(each.leader, tuple(each.replicas), tuple(each.isrs))
                for number, each in topic.partitions.items()
            }
            for name, topic in found.topics.items()
            if topic.partitions
        }

    def topics(self, names: Collection[str]) -> tuple[dict[str, TopicDetails], dict[str, Unknown]]:
        """The topics that exist, and those of which the cluster does not say whether they do."""
        if not names:
            return {}, {}
        admin = self._used()
        described = admin.client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self._timeout
        )
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        configured = admin.client.describe_configs(resources, request_timeout=self._timeout)
        found: dict[str, TopicDetails] = {}
        unseen: dict[str, Unknown] = {}
        for resource in resources:
            name = resource.name
            try:
                description = self._result(described[name])
            except KafkaException as error:
                if fault_of(error.args[0].name()) is not NO_TOPIC:
                    unseen[name] = _why(error)
                continue
            identity = url_safe_topic_id(str(description.topic_id or ""))
            found[name] = TopicDetails(
                id=identity if identity.strip("A") else "",
                configuration=self._settings(configured[resource]),
                operations=_operations(description.authorized_operations),
            )
        return found, unseen

    def broker_settings(self, brokers: Iterable[int]) -> dict[int, Mapping[str, str]] | Unknown:
        """The settings of some brokers; unknown when none tells its own."""
        resources = [ConfigResource(ResourceType.BROKER, str(number)) for number in sorted(brokers)[:_MOST_BROKERS]]
        asked = self._used().client.describe_configs(resources, request_timeout=self._timeout)
        found = {int(resource.name): self._settings(future) for resource, future in asked.items()}
        known: dict[int, Mapping[str, str]] = {
            number: settings for number, settings in found.items() if not isinstance(settings, Unknown)
        }
        unknown = next((settings for settings in found.values() if isinstance(settings, Unknown)), None)
        return unknown if unknown is not None and not known else known

    def transactional_rules(self) -> tuple[AccessRule, ...] | Unknown:
        """The access rules about transactional IDs; none where there is no access control."""
        every = AclBindingFilter(
            ResourceType.TRANSACTIONAL_ID,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        try:
            found = self._result(self._used().client.describe_acls(every, request_timeout=self._timeout))
        except KafkaException as error:
            return _why(error)
        return tuple(
            AccessRule(
                rule.principal,
                rule.name,
                rule.resource_pattern_type is ResourcePatternType.PREFIXED,
                rule.operation.name,
                rule.permission_type is AclPermissionType.ALLOW,
            )
            for rule in found
        )

    def offsets(self, places: Collection[Place]) -> dict[Place, PartitionOffsets | Unknown]:
        """The offsets of some partitions, which must have a leader; a broker that begins to lead is waited for."""
        deadline = time.monotonic() + self._timeout
        found, busy = self._offsets(places)
        while busy and time.monotonic() < deadline:
            time.sleep(_AGAIN_SECONDS)
            again, busy = self._offsets(busy)
            found |= again
        return found

    def _offsets(self, places: Collection[Place]) -> tuple[dict[Place, PartitionOffsets | Unknown], list[Place]]:
        """The offsets, and the partitions to ask for again."""
        specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
        asked = [self._list(places, spec) for spec in specs]
        found: dict[Place, PartitionOffsets | Unknown] = {}
        busy = []
        for place in places:
            try:
                first, end, newest = (self._result(futures[TopicPartition(*place)]) for futures in asked)
            except KafkaException as error:
                found[place] = _why(error)
                if fault_of(error.args[0].name()) is TRANSIENT:
                    busy.append(place)
                continue
            stamp = int(newest.timestamp)
            found[place] = PartitionOffsets(int(first.offset), int(end.offset), stamp if stamp >= 0 else None)
        return found, busy

    def ends(self, places: Collection[Place]) -> dict[Place, tuple[int, float]]:
        """The ends of some partitions, each with our clock before it was asked for; without those that fail."""
        now_ms = time.time() * 1000
        asked = self._list(places, OffsetSpec.latest())
        found = {}
        for place in places:
            try:
                found[place] = (int(self._result(asked[TopicPartition(*place)]).offset), now_ms)
            except KafkaException:
                continue
        return found

    def newest(self, places: Collection[Place]) -> dict[Place, tuple[int, int]]:
        """Offset and timestamp of the record with the latest timestamp; without partitions that fail or have none."""
        asked = self._list(places, OffsetSpec.max_timestamp())
        found = {}
        for place in places:
            try:
                newest = self._result(asked[TopicPartition(*place)])
            except KafkaException:
                continue
            if newest.timestamp >= 0 and newest.offset >= 0:
                found[place] = (int(newest.offset), int(newest.timestamp))
        return found

    def _list(self, places: Collection[Place], spec: OffsetSpec) -> Mapping[TopicPartition, Any]:
        if not places:
            return {}
        wanted = {TopicPartition(*place): spec for place in places}
        futures: Mapping[TopicPartition, Any] = self._used().client.list_offsets(wanted, request_timeout=self._timeout)
        return futures

    def _settings(self, future: Any) -> dict[str, str] | Unknown:
        try:
            entries = self._result(future)
        except KafkaException as error:
            return _why(error)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _result(self, future: Any) -> Any:
        """Wait for a result. Raises KafkaException, also when the answer is late."""
        try:
            return future.result(timeout=self._timeout + 1)
        except FutureTimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001

    def _used(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._connection, self._timeout)
        return self._admin


def _operations(found: Any) -> frozenset[str] | Unknown:
    if found is None:
        return Unknown("the brokers do not tell which operations this user may use")
    return frozenset(operation.name for operation in found)


def _why(error: KafkaException) -> Unknown:
    told = error.args[0]
    if fault_of(told.name()) is DENIED:
        return Unknown("Kafka denies it")
    return Unknown(reason_in(told.str()))
