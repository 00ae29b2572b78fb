"""An in-memory cluster for each kind of work that runs in attempts, on each engine that may run it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless_operator.archiving.archive.reconcile import reconcile_archive
from gapless_operator.archiving.restore.reconcile import reconcile_restore
from gapless_operator.common.pod_template import PodTemplate, PodTemplates
from gapless_operator.common.settings import Program
from gapless_operator.connections.reconcile import reconcile_connection
from gapless_operator.mirroring.reconcile import reconcile_mirror
from gapless_operator.scanning.reconcile import reconcile_gapscan
from kit.story.memory_cluster import MemoryCluster, new_resource

if TYPE_CHECKING:
    import pytest

TEMPLATES = PodTemplates(named={name: PodTemplate(labels={"pool": name}) for name in ("night", "day")})
SPARK = Program(
    image="gapless/spark:1",
    service_account="gapless-spark",
    allowed_images=frozenset({"registry.example/spark:2"}),
    pod_templates=TEMPLATES,
)
WORKERS = Program(image="gapless/sender:1", service_account="gapless-spark", pod_templates=TEMPLATES)
KAFKAS: dict[str, dict[str, Any]] = {
    "north": {"bootstrapServers": "north:9092", "allowedTopics": ["*"]},
    "hall": {"bootstrapServers": "hall:9092", "allowedTopics": ["*"], "access": ["Read", "Write"]},
}
LOCATIONS: dict[str, dict[str, Any]] = {"volume": {"persistentVolumeClaim": {"claimName": "archive", "folder": "kept"}}}
ARCHIVE = {"kafkaRef": {"name": "north"}, "storageRef": {"name": "volume"}, "region": "a", "topics": ["orders"]}
RESTORE = {"archiveRef": {"name": "site"}, "kafkaRef": {"name": "hall"}, "topics": [{"name": "orders"}]}
MIRROR = {"sourceRef": {"name": "north"}, "targetRef": {"name": "hall"}, "topics": ["orders"]}
SCAN = {"kafkaRef": {"name": "north"}, "source": {"gapTopic": {"topic": "gaps"}}}


@dataclass(frozen=True)
class Kind:
    """A kind of work: its resource, and what is special about it."""

    name: str
    spec: dict[str, Any]
    reconcile: Callable[..., Any]
    programs: dict[str, Program]
    other: dict[str, Any] = field(default_factory=dict)
    """A change of the spec that the running attempt does not carry out."""
    options: str = "engine"
    """The field of the spec with the options of Spark; empty for a kind without them."""
    can_be_suspended: bool = True
    can_name_template: bool = True
    kafka: str = "north"
    """The KafkaConnection that it needs; empty for none."""
    replaces_pods: bool = False
    """Whether its Job replaces lost pods, so that the attempt stays."""
    stops_orphans: bool = True
    spark_operator: bool = False

    def cluster(self) -> MemoryCluster:
        """Return a cluster with one resource, which is due to start."""
        spec = copy.deepcopy(self.spec)
        body = new_resource(self.name, "it", "work", spec)
        if self.name == "KafkaConnection":
            body["metadata"]["annotations"] = {"gapless.dev/doctor": "today"}
        return MemoryCluster(
            body,
            self.reconcile,
            dict(self.programs),
            spark_operator=self.spark_operator,
            kafkas=copy.deepcopy(KAFKAS),
            locations=copy.deepcopy(LOCATIONS),
            archives={"site": dict(ARCHIVE)},
        )


def _kinds() -> dict[str, Kind]:
    spark = {"program": SPARK}
    retention = {"segments": {"maxAgeSeconds": 61}}
    archive = Kind("Archive", ARCHIVE, reconcile_archive, spark, retention)
    plan = Kind("Restore", RESTORE, reconcile_restore, spark, {"mode": "Once"}, kafka="hall")
    once = Kind("Restore", {**RESTORE, "mode": "Once"}, reconcile_restore, spark, {"mode": "Follow"}, kafka="hall")
    scan = Kind("GapScan", SCAN, reconcile_gapscan, spark, {"source": {"gapTopic": {"topic": "other"}}})
    programs = {"spark": SPARK, "workers": WORKERS}
    workers = Kind(
        *("Mirror", MIRROR, reconcile_mirror, programs, {"topics": ["other"]}), options="", replaces_pods=True
    )
    on_spark = Kind(
        *("Mirror", {**MIRROR, "engine": "Spark", "spark": {}}, reconcile_mirror, programs, {"topics": ["other"]}),
        options="spark",
    )
    doctor = Kind(
        *("KafkaConnection", KAFKAS["north"], reconcile_connection, {"program": WORKERS}),
        other={"allowedTopics": ["other"]},
        options="",
        can_be_suspended=False,
        can_name_template=False,
        kafka="",
        stops_orphans=False,
    )
    kinds = {
        "archive": archive,
        "restore plan": plan,
        "restore": once,
        "scan": scan,
        "mirror of workers": workers,
        "mirror on Spark": on_spark,
        "check of a connection": doctor,
    }
    applications = {
        f"{name} as an application": Kind(**{**vars(kind), "spark_operator": True})
        for name, kind in kinds.items()
        if kind.options
    }
    return {**kinds, **applications}


KINDS = _kinds()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `kind` with every kind of work that the markers of the test do not leave out."""
    if "kind" not in metafunc.fixturenames:
        return
    needs = [marker.args[0] for marker in metafunc.definition.iter_markers("only_if")]
    chosen = {name: kind for name, kind in KINDS.items() if all(getattr(kind, need) for need in needs)}
    metafunc.parametrize("kind", list(chosen.values()), ids=list(chosen))


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "only_if(attribute): leave out kinds of work without the attribute")
