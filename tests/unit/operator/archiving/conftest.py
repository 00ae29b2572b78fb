"""In-memory clusters with one Archive or Restore."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from gapless_api.wire.archive_progress import ARCHIVE_LINE, ArchivedTopicLine, ArchiveLine
from gapless_operator.archiving.archive.reconcile import reconcile_archive
from gapless_operator.archiving.restore.reconcile import reconcile_restore
from gapless_operator.common.settings import Program
from kit.story.memory_cluster import START, MemoryCluster, new_resource, stamp

PROGRAM = Program(image="gapless/spark:1", service_account="gapless-spark")
KAFKAS: dict[str, dict[str, Any]] = {
    "kafka": {"bootstrapServers": "kafka:9092", "allowedTopics": ["transfer*", "alarm"]},
    "target": {
        "bootstrapServers": "target:9093",
        "tls": {"caSecret": {"name": "target-ca"}},
        "allowedTopics": ["transfer*"],
        "access": ["Read", "Write"],
    },
}
LOCATIONS: dict[str, dict[str, Any]] = {
    "volume": {"persistentVolumeClaim": {"claimName": "archive", "folder": "kept"}},
    "store": {
        "s3": {
            "endpoint": "https://s3.storage:9000",
            "bucket": "archive",
            "prefix": "north/",
            "credentialsSecret": {"name": "s3", "sessionTokenKey": "token"},
            "archivedObjects": {"storageClass": "STANDARD_IA", "tags": [{"key": "owner", "value": "us"}]},
        },
    },
}
ARCHIVE = {"kafkaRef": {"name": "kafka"}, "storageRef": {"name": "store"}, "region": "site-a", "topics": ["transfer"]}
RECONCILERS: dict[str, Any] = {"Archive": reconcile_archive, "Restore": reconcile_restore}


def _cluster(kind: str, name: str, spec: dict[str, Any], **more: Any) -> MemoryCluster:
    return MemoryCluster(
        new_resource(kind, name, "archives", {name: part for name, part in spec.items() if part is not None}),
        RECONCILERS[kind],
        {"program": PROGRAM},
        kafkas=copy.deepcopy(KAFKAS),
        locations=copy.deepcopy(LOCATIONS),
        **more,
    )


def archive_line(at: datetime = START, **figures: Any) -> str:
    """Return a progress line of ``gapless archive``."""
    topic = ArchivedTopicLine(
        topic="transfer",
        topic_id="AAAAAAAAAAAAAAAAAAAAAA",
        partitions=3,
        segments=7,
        covered_up_to=stamp(at),
        lag_records=figures.get("lag_records", 0),
        lag_seconds=figures.get("lag_seconds", 0.0),
        lost_records=0,
    )
    line: dict[str, Any] = {
        "time": stamp(at),
        "region": "site-a",
        "segments": 7,
        "bytes": 7000,
        "records": 700,
        "lag_records": 0,
        "lag_seconds": 0.0,
        "retention_seconds": None,
        "lost_records": 0,
        "last_commit": stamp(at),
        "read_by": "spark",
        "topics": (topic,),
        "topics_omitted": 0,
        "problems": (),
        **figures,
    }
    return ARCHIVE_LINE.to_line(ArchiveLine(**line)) + "\n"


@pytest.fixture
def archive() -> Callable[..., MemoryCluster]:
    """Creates a cluster with one Archive; keyword arguments are fields of its spec, and None removes one."""

    def make(*, spark_operator: bool = False, **spec: Any) -> MemoryCluster:
        return _cluster("Archive", "site", {**ARCHIVE, **spec}, spark_operator=spark_operator)

    return make


@pytest.fixture
def restore() -> Callable[..., MemoryCluster]:
    """Creates a cluster with one Restore and its Archive."""

    def make(*, spark_operator: bool = False, **spec: Any) -> MemoryCluster:
        given = {
            "archiveRef": {"name": "site-a"},
            "kafkaRef": {"name": "target"},
            "topics": [{"name": "transfer"}],
            **spec,
        }
        return _cluster("Restore", "outage", given, spark_operator=spark_operator, archives={"site-a": dict(ARCHIVE)})

    return make


@pytest.fixture
def line() -> Callable[..., str]:
    """Creates progress lines of ``gapless archive``."""
    return archive_line
