"""A small cluster in memory: it takes plans as the API server would and plays the kubelet when told to."""

from __future__ import annotations

import copy
import gzip
import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.wire.result_lines import result_lines
from gapless_operator.common.observed import UID_LABEL
from gapless_operator.common.settings import Program
from gapless_operator.scanning.reconcile import reconcile_gapscan
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.store import Cache
from gapless_operator.shell.observer import Observer
from gapless_spark.output.result_log import short_report
from kit.story.messages import scan_report
from kit.story.plans import is_empty

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gapless_operator.common.plan import Event, Plan
    from gapless_operator.scanning.context import GapScanObserved
    from gapless_operator.shell.api.kinds import Kind

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
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


def _shown(kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """An object with what the API server adds to it."""
    metadata = {"uid": f"{kind}-{name}", **body.get("metadata", {}), "name": name, "namespace": "scans"}
    return {**body, "kind": kind, "metadata": {**metadata, "resourceVersion": "1"}}


@dataclass
class Cluster:
    """One GapScan and what belongs to it."""

    body: dict[str, Any]
    now: datetime = START
    spark_operator: bool = False
    program: Program = PROGRAM
    kafkas: dict[str, dict[str, Any]] = field(default_factory=lambda: dict(KAFKAS))
    """Specs of the KafkaConnections, by name."""
    locations: dict[str, dict[str, Any]] = field(default_factory=lambda: dict(LOCATIONS))
    """Specs of the StorageLocations, by name."""
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """Names of all attempts that were ever created, in order."""
    _count: int = 0

    bundle_of = staticmethod(bundle_of)
    report_of = staticmethod(scan_report)
    log_of = staticmethod(log_of)
    short_report = staticmethod(short_report)

    # -------------------------------------------------------------------------------------------- the operator

    @property
    def scan(self) -> GapScan:
        return GapScan.from_resource(self.body)

    @property
    def status(self) -> dict[str, Any]:
        return self.body.get("status", {})

    def condition(self, kind: str) -> tuple[str, str]:
        found = {c["type"]: c for c in self.status["conditions"]}[kind]
        return found["status"], found["reason"]

    def message(self, kind: str) -> str:
        return str({c["type"]: c for c in self.status["conditions"]}[kind]["message"])

    def observed(self) -> GapScanObserved:
        """What the operator gathers of all that is there."""
        cache = Cache()
        named = [("KafkaConnection", self.kafkas), ("StorageLocation", self.locations)]
        for kind, specs in named:
            for name, spec in specs.items():
                cache.store(_shown(kind, name, {"spec": spec}))
        for (kind, name), body in self.objects.items():
            cache.store(_shown(kind, name, body))
        for name, pod in self.pods.items():
            cache.store(_shown("Pod", name, pod))
        logs = PodLogs(self, start=lambda read: read(), now=lambda: self.now)
        observer = Observer(cache, self, logs)
        observer.spark_operator = self.spark_operator
        return observer.around_gap_scan(self.scan, self.body)

    def get(self, kind: Kind, _namespace: str, name: str) -> dict[str, Any] | None:
        """No GapScan reads a single object."""
        raise AssertionError(f"{kind.name} {name} was read")

    def log(self, _namespace: str, pod: str, _container: str, *, tail_lines: int, most_bytes: int) -> str | None:
        """Read a log, as the kubelet would give it."""
        assert tail_lines > 0
        assert most_bytes > 0
        return self.logs.get(pod)

    def plan(self) -> Plan:
        return reconcile_gapscan(self.scan, self.observed(), self.now, program=self.program)

    def step(self, *, writes: int | None = None) -> Plan:
        """Reconcile once and carry the plan out, or only its first `writes` writes, as if the operator died then."""
        plan = self.plan()
        self.plans.append(plan)
        todo: list[Callable[[], None]] = [
            *(lambda manifest=manifest: self._apply(manifest) for manifest in plan.apply),
            *(lambda ref=ref: self._delete(ref) for ref in plan.delete),
        ]
        if plan.status is not None:
            todo.append(lambda: self.body.update(status=json.loads(json.dumps(plan.status))))
        todo += [lambda event=event: self.events.append(event) for event in plan.events]
        for write in todo[:writes]:
            write()
        return plan

    def settle(self, most: int = 10) -> None:
        """Reconcile until nothing is left to do."""
        for _ in range(most):
            if is_empty(self.step()):
                return
        raise AssertionError(f"still not settled: {self.plans[-1]}")

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)

    def change(self, **spec: Any) -> None:
        """Change the spec as a user would."""
        self.body = copy.deepcopy(self.body)
        self.body["spec"].update(spec)
        self.body["metadata"]["generation"] += 1

    def _apply(self, manifest: Any) -> None:
        key = (manifest["kind"], manifest["metadata"]["name"])
        known = self.objects.get(key)
        body = json.loads(json.dumps(manifest))
        if known is None:
            self._count += 1
            body["metadata"] |= {"uid": f"uid-{self._count}", "creationTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}"}
            if manifest["kind"] != "ConfigMap":
                self.begun.append(manifest["metadata"]["name"])
        else:
            body["metadata"] |= {name: known["metadata"][name] for name in ("uid", "creationTimestamp")}
            body["status"] = known.get("status", {})
        self.objects[key] = body

    def _delete(self, ref: Any) -> None:
        body = self.objects.get((ref.kind, ref.name))
        if body is not None and ref.uid in {"", body["metadata"]["uid"]}:
            del self.objects[ref.kind, ref.name]
            for name in [name for name, pod in self.pods.items() if pod["of"] == ref.name]:
                del self.pods[name]
                self.logs.pop(name, None)

    # --------------------------------------------------------------------------------------------- the kubelet

    def names(self, kind: str) -> list[str]:
        return sorted(name for of, name in self.objects if of == kind)

    def attempt(self) -> dict[str, Any]:
        """The attempt that began last."""
        return next(body for (kind, name), body in self.objects.items() if name == self.begun[-1])

    def pod(self, **status: Any) -> dict[str, Any]:
        """Give the newest attempt its driver pod, or change that pod's status."""
        body = self.attempt()
        name = body["metadata"]["name"]
        job = body["kind"] == "Job"
        labels = (
            {"batch.kubernetes.io/job-name": name}
            if job
            else {"spark-role": "driver", "sparkoperator.k8s.io/app-name": name}
        )
        self.pods[f"{name}-pod"] = {
            "of": name,
            "metadata": {
                "name": f"{name}-pod",
                "namespace": "scans",
                "uid": f"{name}-pod",
                "creationTimestamp": body["metadata"]["creationTimestamp"],
                "labels": {UID_LABEL: "scan-uid", **labels},
            },
            "spec": {"nodeName": "node"},
            "status": status,
        }
        return self.pods[f"{name}-pod"]

    def wait_for(self, reason: str, message: str = "") -> None:
        """The driver's container waits for something."""
        state = {"waiting": {"reason": reason, "message": message}}
        self.pod(phase="Pending", containerStatuses=[{"name": "scan", "state": state}])

    def run(self) -> None:
        """The driver runs."""
        began = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
        self.pod(phase="Running", containerStatuses=[{"name": "scan", "state": {"running": {"startedAt": began}}}])
        body = self.attempt()
        if body["kind"] == "Job":
            body["status"] = {"startTime": began, "active": 1}
        else:
            body["status"] = {"applicationState": {"state": "RUNNING"}, "lastSubmissionAttemptTime": began}

    def end(self, log: str, exit_code: int = 0, reason: str = "") -> None:
        """The driver ends, and so does the attempt."""
        at = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
        ending = {"exitCode": exit_code, "finishedAt": at, "startedAt": at, "reason": reason or "Completed"}
        phase = "Failed" if exit_code else "Succeeded"
        pod = self.pod(phase=phase, containerStatuses=[{"name": "scan", "state": {"terminated": ending}}])
        self.logs[pod["metadata"]["name"]] = log
        body = self.attempt()
        if body["kind"] == "Job":
            kind = "Failed" if exit_code else "Complete"
            condition = {"type": kind, "status": "True", "lastTransitionTime": at, "reason": "BackoffLimitExceeded"}
            body["status"] = {"startTime": at, "conditions": [condition]}
        else:
            state = "FAILED" if exit_code else "COMPLETED"
            body["status"] = {"applicationState": {"state": state}, "terminationTime": at}

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
        body = {
            "apiVersion": "gapless.dev/v1alpha1",
            "kind": "GapScan",
            "metadata": {
                "name": name,
                "namespace": "scans",
                "uid": "scan-uid",
                "generation": 1,
                "resourceVersion": "1",
                "creationTimestamp": f"{START:%Y-%m-%dT%H:%M:%SZ}",
            },
            "spec": {
                "kafkaRef": {"name": "kafka"},
                "source": {"gapTopic": {"topic": "gaps"}},
                "resend": {"diodeRef": {"name": "north"}, "kafkaRef": {"name": "up"}},
                **spec,
            },
        }
        return Cluster(
            body, spark_operator=spark_operator, kafkas=kafkas or dict(KAFKAS), locations=locations or dict(LOCATIONS)
        )

    return make


@pytest.fixture
def gaps() -> Gaps:
    """Seven events in three ranges of two partitions."""
    return {("transfer", 0): [(5, 5), (10, 13)], ("transfer", 1): [(0, 1)], ("transfer", 2): []}
