"""Real Kafka clusters on loopback, with TLS and SASL listeners on request, and the calls that prepare test data.

Must not know the product.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kit.certificates import Authority, ClientFiles
from kit.kafka import reading, topics
from kit.kafka.jars import class_archive_to_create
from kit.kafka.rules import add_rule, remove_rules
from kit.kafka.server import BrokerDiedError, Server
from kit.kafka.settings import ALL_LISTENERS, PLAIN_LISTENERS, Node, ServerSecurity, identity
from kit.kafka.writing import Writer
from kit.machine.processes import wait_until
from kit.machine.temporary import OwnedFolder

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
"""Accounts of every secured broker, the same for PLAIN and both SCRAM mechanisms."""


class KafkaCluster:
    """A KRaft cluster; each broker is also a controller.

    Args:
        size: number of brokers.
        folder: for data, logs and certificates; None for a temporary folder, which `close` removes.
        secured: add SSL, MTLS, SASL_PLAINTEXT and SASL_SSL listeners to PLAINTEXT, and enable ACLs.
        config: server properties that override the kit's.
        jvm_options: more JVM options, such as "-Xmx1g".
        address: advertised address; other machines and pods need one that is not loopback.
    """

    def __init__(
        self,
        size: int = 3,
        folder: Path | None = None,
        *,
        secured: bool = False,
        config: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
        address: str = "127.0.0.1",
    ) -> None:
        self._temporary = OwnedFolder() if folder is None else None
        self.folder = self._temporary.path if self._temporary is not None else folder or Path()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._config = dict(config or {})
        self._jvm_options = tuple(jvm_options)
        self.listeners = ALL_LISTENERS if secured else PLAIN_LISTENERS
        self.authority: Authority | None = None
        self.client_files: ClientFiles | None = None
        if secured:
            self.authority = Authority(self.folder / "certificates")
            self.client_files = self.authority.client("client")
        self.cluster_id, self.nodes = identity(self.folder, size, self.listeners, address)
        self._servers = self._make_servers(address)
        self._admin: AdminClient | None = None
        self._writer: Writer | None = None
        self._created: set[str] = set()

    # Lifecycle

    def start(self, *, timeout_seconds: float = 120.0, **config: str) -> Self:
        """Start every stopped broker and wait until the cluster accepts requests.

        `config` changes server properties from now on, with `_` for `.`.
        """
        self._writer = None  # what it has written may be gone, which an idempotent producer does not survive
        self._config |= {name.replace("_", "."): value for name, value in config.items()}
        fresh = not (self.folder / "ready").exists()
        with class_archive_to_create() as archive:
            if archive is not None:
                _create_class_archive(archive)
        for server in self._servers:
            if not server.running:
                server.launch(self.nodes, self.cluster_id, self._config, self._jvm_options)
        for server in self._servers:
            server.await_port(timeout_seconds)
        self._await_metadata(timeout_seconds)
        if fresh and len(self.listeners) > 1:
            self._add_scram_users()
        (self.folder / "ready").touch()
        return self

    def stop(self, index: int | None = None) -> None:
        """Shut one broker (or all) down gracefully; `start` reuses the data."""
        for server in self._servers if index is None else [self._servers[index]]:
            server.stop()

    def kill(self, index: int | None = None) -> None:
        """Kill one broker (or all) as a power cut would; `start` reuses the data."""
        for server in self._servers if index is None else [self._servers[index]]:
            server.kill()

    @contextmanager
    def suspended(self, seconds: float) -> Iterator[None]:
        """Suspend all brokers for `seconds`, and begin the block at once."""
        waking = threading.Timer(seconds, self._signal, (signal.SIGCONT,))
        self._signal(signal.SIGSTOP)
        waking.start()
        try:
            yield
        finally:
            waking.join()

    @contextmanager
    def hanging(self, index: int) -> Iterator[None]:
        """Suspend one broker while the block lasts: its connections stay open, and it answers nothing."""
        self._signal(signal.SIGSTOP, index)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT, index)

    def _signal(self, number: signal.Signals, index: int | None = None) -> None:
        for server in self._servers if index is None else [self._servers[index]]:
            server.signal(number)

    def restart(self) -> None:
        """Stop and start on the same data and ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the brokers, and remove the folder if it is temporary."""
        self._admin = self._writer = None
        if self._temporary is not None:
            self.kill()
            self._temporary.remove()
        else:
            self.stop()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether all broker processes are running."""
        return len(self._running_nodes()) == len(self.nodes)

    def _make_servers(self, address: str) -> list[Server]:
        security = None
        if self.authority is not None:
            security = ServerSecurity(self.authority.server_store(addresses=(address,)), self.authority.file, USERS)
        return [Server(node, self.listeners, security) for node in self.nodes]

    def _running_nodes(self) -> list[Node]:
        return [node for node, server in zip(self.nodes, self._servers, strict=True) if server.running]

    @property
    def log(self) -> str:
        """The end of the brokers' logs."""
        return "\n".join(server.log_tail() for server in self._servers)

    # Addresses

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers of the PLAINTEXT listener; the same after a restart."""
        return self.address()

    def address(self, listener: str = "PLAINTEXT") -> str:
        """Bootstrap servers of a listener: PLAINTEXT, SSL, MTLS, SASL_PLAINTEXT or SASL_SSL."""
        return ",".join(f"{node.address}:{node.ports[listener]}" for node in self.nodes)

    def client_options(self, **more: Any) -> dict[str, Any]:
        """Return options for a confluent-kafka client on PLAINTEXT that reconnects quickly after a restart."""
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.max.ms": 250,
            "topic.metadata.refresh.sparse": True,
            "log_level": 2,
            **more,
        }

    # Test data

    def admin(self) -> AdminClient:
        """Return an admin client, which ACLs do not restrict."""
        if self._admin is None:
            self._admin = AdminClient(self.client_options())
        return self._admin

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        only_on: int | None = None,
        led_by: int | None = None,
        **config: str,
    ) -> str:
        """Create a topic with up to three replicas, wait until each broker knows the leaders, and return the name.

        Args:
            name: of the topic.
            partitions: number of partitions.
            only_on: index of the only broker that gets a replica.
            led_by: index of the broker that leads all partitions, which have replicas everywhere.
            config: topic configuration, with `_` for `.`.
        """
        settings = {key.replace("_", "."): value for key, value in config.items()}
        nodes = [node.node_id for node in self.nodes]
        if only_on is not None:
            topic = NewTopic(name, partitions, replica_assignment=[[nodes[only_on]]] * partitions, config=settings)
        elif led_by is not None:
            replicas = [nodes[led_by], *(node for node in nodes if node != nodes[led_by])]
            topic = NewTopic(name, partitions, replica_assignment=[replicas] * partitions, config=settings)
        else:
            topic = NewTopic(name, partitions, min(len(nodes), 3), config=settings)
        try:
            self.admin().create_topics([topic], operation_timeout=30, request_timeout=30)[name].result()
        except KafkaException as error:
            # Kafka's client repeats a request whose answer is late, also if it was carried out.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or name in self._created:
                raise
        self._created.add(name)
        self.await_leaders(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until each broker has learned of it."""
        topics.delete_topic(name, self._admins())
        self._created.discard(name)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic have `partitions` partitions, more than before; wait until each broker knows the leaders."""
        topics.add_partitions(name, partitions, self._admins())

    def await_leaders(self, topic: str, partitions: int, *, some: bool = True) -> None:
        """Wait until each broker reports a leader for every partition, or with `some=False` for none of them."""
        topics.await_leaders(topic, partitions, self._admins(), some=some)

    def alter_topic(self, name: str, **config: str) -> None:
        """Set some topic configurations and keep the others, on each broker; `config` with `_` for `.`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topics.alter_topic(name, settings, self._admins())

    def end_compaction(self, name: str) -> None:
        """Let the log cleaner leave a compacted topic alone, and wait until what it has begun is done."""
        self.alter_topic(name, segment_ms="600000", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="600000")
        seen: list[list[int]] = []

        def is_still() -> bool:
            seen.append([message.offset() for message in self.read(name)])
            time.sleep(0.5)
            return len(seen) > 1 and seen[-1] == seen[-2]

        wait_until(is_still, what=f"the end of the compaction of {name}")

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        keys: Iterable[bytes | None] | None = None,
        timestamps: Iterable[int] | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Write `values` to one partition in order and wait for every acknowledgement.

        Raises:
            KafkaException: a record was rejected.
        """
        key_source = iter(keys) if keys is not None else itertools.repeat(None)
        time_source = iter(timestamps) if timestamps is not None else itertools.repeat(0)
        same: dict[str, Any] = {"partition": partition, "headers": list(headers) if headers else None}
        self.write(
            topic,
            (
                {"value": value, "key": key, "timestamp": timestamp, **same}
                for value, key, timestamp in zip(values, key_source, time_source, strict=False)
            ),
        )

    def write(self, topic: str, records: Iterable[Mapping[str, Any]], **options: Any) -> int:
        """Write records, each once and in order, wait for every acknowledgement, and return their number.

        Args:
            topic: of all records.
            records: arguments of `Producer.produce`: value, key, partition, timestamp, headers.
            options: of a producer of its own, with `_` for `.`.

        Raises:
            KafkaException: a record was rejected.
        """
        if options:
            own = {name.replace("_", "."): value for name, value in options.items()}
            return Writer(self.client_options(**own)).write(topic, records)
        writer = self._writer = self._writer or Writer(self.client_options())
        try:
            return writer.write(topic, records)
        except BaseException:
            self._writer = None
            raise

    def watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the first offset and the end offset (exclusive) of the committed records of every partition."""
        return reading.watermarks(self.client_options(), topic)

    def read(
        self,
        topic: str,
        *,
        committed_only: bool = True,
        marks: Mapping[int, tuple[int, int]] | None = None,
        timeout_seconds: float = 120.0,
    ) -> list[Message]:
        """Read a small topic up to its end according to `marks`, now by default; ordered by partition and offset.

        Waits for the markers of transactions that are committed, as `reading.settled_watermarks` does.

        Raises:
            TimeoutError: the end was not reached.
        """
        options = self.client_options()
        if marks is None and committed_only:
            marks = reading.settled_watermarks(options, topic)
        elif marks is None:
            marks = reading.watermarks(options, topic, committed_only=False)
        ends = {number: high for number, (low, high) in marks.items() if high > low}
        return reading.read(options, topic, ends, committed_only=committed_only, timeout_seconds=timeout_seconds)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Delete the records before `before_offset` (exclusive), as retention would."""
        target = TopicPartition(topic, partition, before_offset)
        for future in self.admin().delete_records([target]).values():
            future.result()

    def deny(self, topic: str, user: str, operation: AclOperation = AclOperation.ALL) -> None:
        """Deny `user` (an account, or a certificate's common name) an operation on a topic."""
        self._add_topic_rule(topic, user, operation, AclPermissionType.DENY)

    def allow(self, topic: str, user: str, operation: AclOperation = AclOperation.ALL) -> None:
        """Allow `user` an operation on a topic, which denies it to every user without an ACL of its own."""
        self._add_topic_rule(topic, user, operation, AclPermissionType.ALLOW)

    def add_rule(self, rule: AclBinding) -> None:
        """Add an access rule of any kind; it is in force on each running broker afterwards."""
        add_rule(rule, self._admins())

    def remove_rules(self, found: AclBindingFilter) -> None:
        """Remove the access rules that `found` matches; they are gone from each running broker afterwards."""
        remove_rules(found, self._admins())

    def _add_topic_rule(self, topic: str, user: str, operation: AclOperation, permission: AclPermissionType) -> None:
        literal, account = ResourcePatternType.LITERAL, f"User:{user}"
        self.add_rule(AclBinding(ResourceType.TOPIC, topic, literal, account, "*", operation, permission))

    def _admins(self) -> list[AdminClient]:
        """A client of each running broker."""
        running = self._running_nodes()
        if running == self.nodes[:1]:
            return [self.admin()]
        addresses = [f"{node.address}:{node.ports['PLAINTEXT']}" for node in running]
        return [AdminClient(self.client_options(**{"bootstrap.servers": address})) for address in addresses]

    def _await_metadata(self, timeout_seconds: float) -> None:
        def complete() -> bool:
            try:
                return len(self.admin().list_topics(timeout=2).brokers) == len(self.nodes)
            except KafkaException:
                if not self.running:
                    raise BrokerDiedError(f"A broker exited during its start: {self.log}") from None
                return False

        wait_until(complete, timeout_seconds=timeout_seconds, what="the cluster's metadata")

    def _add_scram_users(self) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            accounts = [
                UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
                for name, password in USERS.items()
            ]
            for future in self.admin().alter_user_scram_credentials(accounts).values():
                future.result()


def _create_class_archive(archive: Path) -> None:
    """Run a broker through a topic's lifecycle, so that the archive contains the classes that a normal start loads."""
    print("==> creating the class archive for fast broker starts (once per machine)", file=sys.stderr, flush=True)
    broker = KafkaCluster(1, jvm_options=[f"-XX:ArchiveClassesAtExit={archive}"])
    server = broker._servers[0]
    try:
        server.launch(broker.nodes, broker.cluster_id, {}, broker._jvm_options)
        server.await_port(120)
        broker._await_metadata(120)
        broker.create_topic("warm")
        broker.produce("warm", [b"up"])
        broker.read("warm")
        server.stop()
    finally:
        broker.close()
