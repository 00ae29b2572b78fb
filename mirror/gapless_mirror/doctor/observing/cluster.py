"""The observation of a cluster with an admin client: metadata, settings, operations and offsets.

What the cluster does not return becomes `Unknown`; only an unreachable cluster is an error.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
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
from gapless_kafka.access.answers import listed
from gapless_kafka.access.errors import DENIED, NO_TOPIC, TRANSIENT, fault_of, reason_in
from gapless_kafka.topics.topic_ids import described_topic_id
from gapless_mirror.doctor.observed import AccessRule, Broker, Partition, PartitionOffsets, TopicDetails, Unknown

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_RETRY_SECONDS = 0.25
_MAX_BROKERS = 12
"""Limit for brokers whose settings are read."""


class ClusterObserver:
    """Observes one cluster. The first call shows whether it is reachable."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        """Nothing is sent yet; `timeout_seconds` is the limit for each request."""
        self._connection = connection
        self._timeout = timeout_seconds
        self._admin: Admin | None = None

    def cluster(self) -> tuple[str, frozenset[str] | Unknown]:
        """Return the cluster ID, and the authorized operations of this user on the cluster.

        Raises:
            SourceUnreachableError: no broker responds, or the brokers refuse the connection.
            ConfigurationError: a broker is at a forbidden local address.
        """
        self._connection.check_bootstrap_servers()

        def request(admin: Admin) -> Any:
            admin.metadata()  # there are brokers: otherwise DescribeCluster would abort this process
            future = admin.client.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout)
            return admin.result(future, "the cluster")

        cluster = call_admin(self._connection, request, timeout_seconds=self._timeout)
        self._connection.check_brokers((node.host, node.port) for node in cluster.nodes)
        return cluster.cluster_id or "", _operations(cluster.authorized_operations)

    def metadata(self) -> tuple[dict[int, Broker], dict[str, dict[int, Partition]]]:
        """Return the registered brokers, and the partitions of all visible topics. Raises GaplessError."""
        try:
            metadata = self._connected().client.list_topics(timeout=self._timeout)
        except KafkaException as failure:
            error = failure.args[0]
            raise fault_of(error.name()).error(
                self._connection.bootstrap_servers, "the list of topics", reason=reason_in(error.str())
            ) from None
        brokers = {number: Broker(number, broker.host, broker.port) for number, broker in metadata.brokers.items()}
        self._connection.check_brokers((broker.host, broker.port) for broker in brokers.values())
        return brokers, {
            name: {
                number: Partition(partition.leader, tuple(partition.replicas), tuple(partition.isrs))
                for number, partition in topic.partitions.items()
            }
            for name, topic in metadata.topics.items()
            if topic.partitions
        }

    def topics(self, names: Collection[str]) -> tuple[dict[str, TopicDetails], dict[str, Unknown]]:
        """Return the topics that exist, and those whose existence is unknown."""
        if not names:
            return {}, {}
        admin = self._connected()
        descriptions = admin.client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self._timeout
        )
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        configurations = admin.client.describe_configs(resources, request_timeout=self._timeout)
        topics: dict[str, TopicDetails] = {}
        unseen: dict[str, Unknown] = {}
        for resource in resources:
            name = resource.name
            try:
                description = self._result(descriptions[name])
            except KafkaException as error:
                if fault_of(error.args[0].name()) is not NO_TOPIC:
                    unseen[name] = _unknown(error)
                continue
            topics[name] = TopicDetails(
                id=described_topic_id(description),
                configuration=self._settings(configurations[resource]),
                operations=_operations(description.authorized_operations),
            )
        return topics, unseen

    def broker_settings(self, brokers: Iterable[int]) -> dict[int, Mapping[str, str]] | Unknown:
        """Return the settings of brokers; unknown when no broker returns any."""
        client = self._connected().client
        resources = {
            number: ConfigResource(ResourceType.BROKER, str(number)) for number in sorted(brokers)[:_MAX_BROKERS]
        }
        futures = {  # Kafka's client takes one broker per call
            number: client.describe_configs([resource], request_timeout=self._timeout)[resource]
            for number, resource in resources.items()
        }
        known: dict[int, Mapping[str, str]] = {}
        unknown: Unknown | None = None
        for number, future in futures.items():
            settings = self._settings(future)
            if isinstance(settings, Unknown):
                unknown = unknown or settings
            else:
                known[number] = settings
        return known if known or unknown is None else unknown

    def transactional_rules(self) -> tuple[AccessRule, ...] | Unknown:
        """Return the ACLs for transactional IDs; empty without an authorizer."""
        all_transactional_ids = AclBindingFilter(
            ResourceType.TRANSACTIONAL_ID,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        try:
            future = self._connected().client.describe_acls(all_transactional_ids, request_timeout=self._timeout)
            acls = self._result(future)
        except KafkaException as error:
            return _unknown(error)
        return tuple(
            AccessRule(
                acl.principal,
                acl.name,
                acl.resource_pattern_type is ResourcePatternType.PREFIXED,
                acl.operation.name,
                acl.permission_type is AclPermissionType.ALLOW,
            )
            for acl in acls
        )

    def offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionOffsets | Unknown]:
        """Return the offsets of online partitions; transient errors are retried until the timeout."""
        deadline = time.monotonic() + self._timeout
        offsets, to_retry = self._offsets(partitions)
        while to_retry and time.monotonic() < deadline:
            time.sleep(_RETRY_SECONDS)
            retried, to_retry = self._offsets(to_retry)
            offsets |= retried
        return offsets

    def _offsets(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, PartitionOffsets | Unknown], list[TopicPartition]]:
        """Return the offsets, and the partitions to retry."""
        specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
        futures_by_spec = [self._list_offsets(partitions, spec) for spec in specs]
        offsets: dict[TopicPartition, PartitionOffsets | Unknown] = {}
        to_retry = []
        for partition in partitions:
            try:
                first, end, newest = (
                    listed(self._result(futures[KafkaPartition(*partition)])) for futures in futures_by_spec
                )
            except KafkaException as error:
                offsets[partition] = _unknown(error)
                if fault_of(error.args[0].name()) is TRANSIENT:
                    to_retry.append(partition)
                continue
            newest_ms = int(newest.timestamp)
            offsets[partition] = PartitionOffsets(
                int(first.offset), int(end.offset), newest_ms if newest_ms >= 0 else None
            )
        return offsets, to_retry

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, float]]:
        """Return end offsets, each with the local clock before the request; failures are left out."""
        now_ms = time.time() * 1000
        latest = self._listed_offsets(partitions, OffsetSpec.latest())
        return {partition: (int(result.offset), now_ms) for partition, result in latest.items()}

    def newest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return offset and timestamp of the record with the latest timestamp; failures are left out."""
        newest = self._listed_offsets(partitions, OffsetSpec.max_timestamp())
        return {
            partition: (int(result.offset), int(result.timestamp))
            for partition, result in newest.items()
            if result.timestamp >= 0 and result.offset >= 0
        }

    def _listed_offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, Any]:
        """Return the results of ListOffsets without those that fail."""
        futures = self._list_offsets(partitions, spec)
        results = {}
        for partition in partitions:
            with suppress(KafkaException):
                results[partition] = listed(self._result(futures[KafkaPartition(*partition)]))
        return results

    def _list_offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Mapping[KafkaPartition, Any]:
        if not partitions:
            return {}
        specs = {KafkaPartition(*partition): spec for partition in partitions}
        futures: Mapping[KafkaPartition, Any] = self._connected().client.list_offsets(
            specs, request_timeout=self._timeout
        )
        return futures

    def _settings(self, future: Any) -> dict[str, str] | Unknown:
        try:
            entries = self._result(future)
        except KafkaException as error:
            return _unknown(error)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def _result(self, future: Any) -> Any:
        """Wait for a result. Raises KafkaException, also after the timeout."""
        try:
            return future.result(timeout=self._timeout + 1)
        except FutureTimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001

    def _connected(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._connection, self._timeout)
        return self._admin


def _operations(operations: Any) -> frozenset[str] | Unknown:
    if operations is None:
        return Unknown("the brokers do not return them")
    return frozenset(operation.name for operation in operations)


def _unknown(failure: KafkaException) -> Unknown:
    error = failure.args[0]
    if fault_of(error.name()) is DENIED:
        return Unknown("Kafka denies access")
    return Unknown(reason_in(error.str()))
