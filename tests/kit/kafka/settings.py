"""The contents of a test broker's server.properties; must not know processes, clients or jars."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.machine.processes import free_ports

_FOREVER = 2**63 - 1

PLAIN_LISTENERS: dict[str, str] = {"PLAINTEXT": "PLAINTEXT"}
"""Listener name to security protocol; the brokers also use PLAINTEXT between themselves."""

ALL_LISTENERS: dict[str, str] = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}


@dataclass(frozen=True)
class Node:
    """One node of a cluster: broker and controller."""

    node_id: int
    controller_port: int
    ports: Mapping[str, int]
    """Listener name to port."""
    folder: Path
    address: str = "127.0.0.1"
    """Advertised to clients; if it is not loopback, the broker listens on every interface."""

    @property
    def log_folder(self) -> Path:
        """The value of log.dirs."""
        return self.folder / "data"


@dataclass(frozen=True)
class ServerSecurity:
    """Files and accounts for the TLS and SASL listeners."""

    store: Path
    authority: Path
    users: Mapping[str, str] = field(repr=False)
    """User name to password, for PLAIN; SCRAM users are created through the admin client."""


def server_properties(
    node: Node,
    nodes: Sequence[Node],
    listeners: Mapping[str, str],
    security: ServerSecurity | None,
    overrides: Mapping[str, str],
) -> str:
    """Render server.properties for `node` of the cluster `nodes`."""
    settings = _base(node, nodes, listeners)
    if security is not None:
        settings |= _secured(listeners, security)
    settings |= overrides
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _base(node: Node, nodes: Sequence[Node], listeners: Mapping[str, str]) -> dict[str, str]:
    replicas = min(len(nodes), 3)
    protocols = {**listeners, "CONTROLLER": "PLAINTEXT"}
    bound = "127.0.0.1" if node.address == "127.0.0.1" else "0.0.0.0"  # noqa: S104 - a test's own network
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in nodes),
        "listeners": ",".join(
            [
                *(f"{name}://{bound}:{node.ports[name]}" for name in listeners),
                f"CONTROLLER://127.0.0.1:{node.controller_port}",
            ]
        ),
        "advertised.listeners": ",".join(f"{name}://{node.address}:{node.ports[name]}" for name in listeners),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(node.log_folder),
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        # Tests replay records that are years old or from the future: neither reject nor expire them.
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        "log.message.timestamp.before.max.ms": str(_FOREVER),
        "log.message.timestamp.after.max.ms": str(_FOREVER),
        # Retention and compaction of a topic take effect within a second, not within minutes.
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.segment.delete.delay.ms": "200",
        # The defaults are for servers with a lot of memory and many clients.
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "socket.request.max.bytes": str(100 << 20),
        # After a kill the controller rejects the same node until its old session has expired: 9 s by default.
        "broker.session.timeout.ms": "2500",
        "broker.heartbeat.interval.ms": "700",
        # By default a controller writes a no-op record twice a second, a third of the CPU time of an idle broker.
        "metadata.max.idle.interval.ms": "30000",
        # A single node has no other broker to move its leaders to.
        "controlled.shutdown.enable": "true" if len(nodes) > 1 else "false",
    }


def _secured(listeners: Mapping[str, str], security: ServerSecurity) -> dict[str, str]:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.authority),
        "ssl.client.auth": "none",
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Tests prepare topics and ACLs over connections without a principal (PLAINTEXT, SSL without a certificate).
        "super.users": "User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": "true",
    }
    accounts = "".join(f' user_{name}="{password}"' for name, password in security.users.items())
    modules = {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule required" + accounts + ";",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    for name, protocol in listeners.items():
        if protocol.startswith("SASL"):
            prefix = f"listener.name.{name.lower()}."
            settings[prefix + "sasl.enabled.mechanisms"] = ",".join(modules)
            for mechanism, module in modules.items():
                settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = module
    return settings


def identity(folder: Path, size: int, listeners: Mapping[str, str], address: str) -> tuple[str, list[Node]]:
    """Read the cluster ID and ports from `folder`; choose and store them on the first run."""
    file = folder / "cluster.json"
    if not file.exists():
        ports = iter(free_ports(size * (1 + len(ALL_LISTENERS))))
        chosen = {
            "cluster_id": random_id(),
            "nodes": [
                {"controller": next(ports), "ports": {name: next(ports) for name in ALL_LISTENERS}} for _ in range(size)
            ],
        }
        file.write_text(json.dumps(chosen))
    stored = json.loads(file.read_text())
    nodes = [
        Node(
            number,
            node["controller"],
            {name: node["ports"][name] for name in listeners},
            folder / f"node{number}",
            address,
        )
        for number, node in enumerate(stored["nodes"], start=1)
    ]
    return stored["cluster_id"], nodes


def random_id() -> str:
    """Return a random ID in Kafka's format, never with a leading dash, because programs would parse it as an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")
