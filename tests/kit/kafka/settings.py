"""Owns what a test broker's server.properties says; must not know processes, clients or how jars get here."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.machine.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FOREVER = 2**63 - 1

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

PLAIN_LISTENERS: dict[str, str] = {"PLAINTEXT": "PLAINTEXT"}
"""Listener name to security protocol; PLAINTEXT also serves the brokers among themselves."""

ALL_LISTENERS: dict[str, str] = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}


@dataclass(frozen=True)
class Node:
    """One broker of a cluster, which is also one of its controllers."""

    node_id: int
    controller_port: int
    ports: Mapping[str, int]
    """Listener name to port."""
    folder: Path
    address: str = "127.0.0.1"
    """Where clients find it; if that is not loopback, it listens on every interface."""

    @property
    def log_folder(self) -> Path:
        """Where the topics are."""
        return self.folder / "data"


@dataclass(frozen=True)
class ServerSecurity:
    """What the TLS and SASL listeners need."""

    store: Path
    authority: Path
    users: Mapping[str, str] = field(repr=False)
    """User name to password, for PLAIN; SCRAM users are made through the admin client."""


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
        # Tests replay records that are years old or from the future: neither refuse nor expire them.
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        "log.message.timestamp.before.max.ms": str(_FOREVER),
        "log.message.timestamp.after.max.ms": str(_FOREVER),
        # A topic with its own retention or compaction shows it within a second, not within minutes.
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.segment.delete.delay.ms": "200",
        # The defaults are for a server with much memory and many clients.
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "socket.request.max.bytes": str(100 << 20),
        # After a kill the controller refuses the same node until its old session has ended: 9 s by default.
        "broker.session.timeout.ms": "2500",
        "broker.heartbeat.interval.ms": "700",
        # By default a controller writes an empty record twice a second, which is a third of what an idle broker costs.
        "metadata.max.idle.interval.ms": "30000",
        # One node need not hand its partitions over before it stops.
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
        # Whoever comes without a name (PLAINTEXT, SSL without a client certificate) sets the scene for the test.
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
            settings[prefix + "sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            for mechanism, module in modules.items():
                settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = module
    return settings


def identity(folder: Path, size: int, listeners: Mapping[str, str], address: str) -> tuple[str, list[Node]]:
    """Read the cluster's id and ports from an earlier run in `folder`, or choose them."""
    remembered = folder / "cluster.json"
    if not remembered.exists():
        ports = iter(free_ports(size * (1 + len(ALL_LISTENERS))))
        chosen = {
            "cluster_id": random_id(),
            "nodes": [
                {"controller": next(ports), "ports": {name: next(ports) for name in ALL_LISTENERS}} for _ in range(size)
            ],
        }
        remembered.write_text(json.dumps(chosen))
    known = json.loads(remembered.read_text())
    nodes = [
        Node(
            number,
            each["controller"],
            {name: each["ports"][name] for name in listeners},
            folder / f"node{number}",
            address,
        )
        for number, each in enumerate(known["nodes"], start=1)
    ]
    return known["cluster_id"], nodes


def random_id() -> str:
    """Give an id as Kafka does: never one that begins with a dash, because programs take it for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")
