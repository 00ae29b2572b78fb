"""A cluster in memory: it applies plans like the API server and simulates the kubelet."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.wire.result_lines import result_lines
from gapless_operator.common.settings import Program
from gapless_operator.scanning.reconcile import reconcile_gapscan
from gapless_spark.output.result_log import short_report
from kit.story.memory_cluster import START, MemoryCluster, new_resource
from kit.story.messages import scan_report

if TYPE_CHECKING:
    from gapless_api.v1alpha1.gapscan import GapScan

PROGRAM = Program(
    image="gapless/spark:1",
    service_account="gapless-spark",
    allowed_images=frozenset({"registry.example/spark:2"}),
    allowed_service_accounts=frozenset({"own"}),
    signing_key_secrets=frozenset({"signing"}),
)
KAFKAS: dict[str, dict[str, Any]] = {
    "kafka": {"bootstrapServers": "kafka:9092", "allowedTopics": ["gaps", "transfer", "alarm", "internal"]},
    "other": {"bootstrapServers": "other:9092", "allowedTopics": ["*"]},
    "secure": {
        "bootstrapServers": "kafka-0:9093,kafka-1:9093",
        "tls": {
            "caSecret": {"name": "cluster-ca-cert"},
            "clientSecret": {"name": "scanner", "passwordKey": "user.password"},
        },
        "sasl": {"username": "scanner", "passwordSecret": {"name": "scanner"}},
        "allowedTopics": ["*"],
    },
}
LOCATIONS: dict[str, dict[str, Any]] = {
    "carry": {"persistentVolumeClaim": {"claimName": "carry", "folder": "out"}},
    "carry-all": {"persistentVolumeClaim": {"claimName": "carry"}},
    "audits": {"persistentVolumeClaim": {"claimName": "audits"}},
    "store": {
        "s3": {
            "endpoint": "https://s3.storage:9000",
            "bucket": "gaps",
            "prefix": "north/",
            "region": "eu-north-1",
            "caSecret": {"name": "s3-ca", "key": "ca.pem"},
            "credentialsSecret": {"name": "s3"},
        },
    },
    "other-store": {"s3": {"endpoint": "https://other:9000", "bucket": "gaps"}},
}
Gaps = dict[tuple[str, int], list[tuple[int, int]]]


class _Captured(io.TextIOWrapper):
    """Standard output as the bundle writer uses it."""


def bundle_of(gaps: Gaps, *, at: datetime = START, signing_key: Path | None = None) -> tuple[bytes, dict[str, Any]]:
    """A real bundle, and what a report says about it."""
    results = [
        PartitionGaps(topic, partition, 0, 9999, OffsetRanges([OffsetRange(*pair) for pair in pairs]))
        for (topic, partition), pairs in gaps.items()
    ]
    held = io.BytesIO()
    with redirect_stdout(_Captured(held, write_through=True)) as stream:
        mark = write_bundle(None, BundleKind.ALL, results, created=at, source={}, signing_key=signing_key)
        content = held.getvalue()
        stream.detach()
    return content, {"file": None, "id": mark.id, "sha256": mark.sha256}


def log_of(gaps: Gaps, *, signing_key: Path | None = None, **more: Any) -> str:
    """What the pod of a scan prints that found `gaps`."""
    content, named = bundle_of(gaps, signing_key=signing_key)
    report = short_report(scan_report(gaps, named, **more), omits_bundle=False)
    return "\n".join(["starting", *result_lines(report, gzip.compress(content, mtime=0)), ""])


@dataclass
class Cluster(MemoryCluster):
    """One GapScan and what belongs to it."""

    bundle_of = staticmethod(bundle_of)
    report_of = staticmethod(scan_report)
    log_of = staticmethod(log_of)
    short_report = staticmethod(short_report)

    @property
    def scan(self) -> GapScan:
        found: GapScan = self.owner
        return found

    def answer(self, gaps: Gaps, **more: Any) -> None:
        """The newest attempt runs and finds `gaps`."""
        self.run()
        self.step()
        self.end(log_of(gaps, **more))
        self.settle()


@pytest.fixture
def cluster() -> Callable[..., Cluster]:
    """Makes a cluster with one GapScan; keyword arguments are parts of its spec."""

    def make(
        *,
        name: str = "night",
        spark_operator: bool = False,
        kafkas: dict[str, dict[str, Any]] | None = None,
        locations: dict[str, dict[str, Any]] | None = None,
        **spec: Any,
    ) -> Cluster:
        given = {
            "kafkaRef": {"name": "kafka"},
            "source": {"gapTopic": {"topic": "gaps"}},
            "resend": {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}},
            **spec,
        }
        return Cluster(
            new_resource("GapScan", name, "scans", given, uid="scan-uid"),
            reconcile_gapscan,
            {"program": PROGRAM},
            spark_operator=spark_operator,
            kafkas=kafkas or dict(KAFKAS),
            locations=locations or dict(LOCATIONS),
        )

    return make


@pytest.fixture
def gaps() -> Gaps:
    """Seven events in three ranges of two partitions."""
    return {("transfer", 0): [(5, 5), (10, 13)], ("transfer", 1): [(0, 1)], ("transfer", 2): []}
