"""MirrorMaker 2, the reference for the mirror: its jars, its settings files and its command.

It gets its best configuration: for at least once, Kafka Connect's standalone worker, which starts and copies faster
than the dedicated mode; for exactly once, the dedicated mode (the standalone worker has no transactions) with one
transaction per interval instead of per poll. Both get larger batches than the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.kafka.jars import KAFKA_VERSION, java
from kit.machine.maven import jars_of
from kit.machine.processes import free_ports

_LOGGING = """<Configuration status="ERROR"><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/>
</Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""
_HEAP = "-Xmx1g"
_TASKS = "2"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_CONSUMER = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
_PRODUCER = {"linger.ms": "20", "batch.size": "500000"}
_CONNECTOR = {
    "tasks.max": _TASKS,
    "replication.policy.class": _POLICY,
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
}


@dataclass(frozen=True)
class Copy:
    """The copy that a mirror of any kind makes."""

    source: str
    """Bootstrap servers."""
    target: str
    topic: str
    name: str
    """Of this run; unique, so that no run continues another."""
    exactly_once: bool
    compression: str
    interval_ms: int = 500
    """Commit interval."""


def mirrormaker(copy: Copy, folder: Path) -> list[str]:
    """Write the settings files of a run into `folder` and return its command."""
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.xml"
    logging.write_text(_LOGGING)
    jars = jars_of(
        Path(__file__).with_name("mirrormaker-pom.xml"),
        f"mirrormaker-{KAFKA_VERSION}",
        f"MirrorMaker 2 of Kafka {KAFKA_VERSION} (34 MB of jars, by Maven)",
    )
    class_path = os.pathsep.join(str(jar) for jar in jars)
    program = [str(java()), _HEAP, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path]
    if copy.exactly_once:
        settings = _write_properties(folder / "mm2.properties", _dedicated(copy))
        return [*program, "org.apache.kafka.connect.mirror.MirrorMaker", settings]
    worker = _write_properties(folder / "worker.properties", _worker(copy, folder))
    source = _write_properties(folder / "source.properties", _source(copy))
    return [*program, "org.apache.kafka.connect.cli.ConnectStandalone", worker, source]


def _dedicated(copy: Copy) -> dict[str, str]:
    source, flow = copy.name, f"{copy.name}->target"
    return {
        "clusters": f"{source}, target",
        f"{source}.bootstrap.servers": copy.source,
        "target.bootstrap.servers": copy.target,
        f"{flow}.enabled": "true",
        f"target->{source}.enabled": "false",
        f"{flow}.topics": copy.topic,
        **_CONNECTOR,
        **{f"{topic}.topic.replication.factor": "1" for topic in ("checkpoints", "heartbeats")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "status", "config")},
        "target.exactly.once.source.support": "enabled",
        f"{flow}.transaction.boundary": "interval",
        f"{flow}.transaction.boundary.interval.ms": str(copy.interval_ms),
        **{f"{source}.consumer.{name}": value for name, value in _CONSUMER.items()},
        **{f"target.producer.{name}": value for name, value in _producer(copy).items()},
    }


def _worker(copy: Copy, folder: Path) -> dict[str, str]:
    (port,) = free_ports(1)
    return {
        "bootstrap.servers": copy.target,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": str(copy.interval_ms),
        "key.converter": _BYTES,
        "value.converter": _BYTES,
    }


def _source(copy: Copy) -> dict[str, str]:
    return {
        "name": copy.name,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": copy.name,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": copy.source,
        "target.cluster.bootstrap.servers": copy.target,
        "topics": copy.topic,
        **_CONNECTOR,
        **{f"source.consumer.{name}": value for name, value in _CONSUMER.items()},
        **{f"producer.override.{name}": value for name, value in _producer(copy).items()},
    }


def _producer(copy: Copy) -> dict[str, str]:
    return {**_PRODUCER, "compression.type": copy.compression}


def _write_properties(file: Path, settings: Mapping[str, str]) -> str:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)
