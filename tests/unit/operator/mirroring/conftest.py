"""In-memory clusters with one Mirror."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from gapless_api.wire.mirror_progress import MIRROR_LINE, MirroredTopicLine, MirrorLine, MirrorProblem, StallReason
from gapless_operator.common.settings import Program
from gapless_operator.mirroring.reconcile import reconcile_mirror
from kit.story.memory_cluster import START, MemoryCluster, new_resource, stamp

SPARK = Program(image="gapless/spark:1", service_account="gapless-spark")
WORKERS = Program(image="gapless/sender:1", service_account="gapless-spark")
KAFKAS: dict[str, dict[str, Any]] = {
    "north": {"bootstrapServers": "north:9092", "allowedTopics": ["orders*", "alarm"]},
    "hall": {
        "bootstrapServers": "hall:9093",
        "tls": {"caSecret": {"name": "hall-ca"}},
        "sasl": {"username": "mirror", "passwordSecret": {"name": "hall-user"}},
        "allowedTopics": ["orders*", "north.*"],
        "access": ["Read", "Write"],
    },
}
MIRROR = {"sourceRef": {"name": "north"}, "targetRef": {"name": "hall"}, "topics": ["orders"]}


class MirrorCluster(MemoryCluster):
    """One Mirror and its objects."""

    def worker(self, index: int = 0, log: str = "", *, again: int = 0, **status: Any) -> None:
        """Let a pod of the Job run, with `log` as its log so far; `again` numbers the pods of one index."""
        body = self.attempt()
        name = f"{body['metadata']['name']}-{index}-{again}"
        running = {"name": "main", "state": {"running": {"startedAt": stamp(self.now)}}}
        began = self.pods.get(name, {}).get("status", {"phase": "Running", "containerStatuses": [running]})
        self.pods[name] = {
            "of": body["metadata"]["name"],
            "metadata": {
                "name": name,
                "namespace": "mirrors",
                "uid": name,
                "creationTimestamp": stamp(self.now),
                "labels": {
                    "gapless.dev/uid": self.body["metadata"]["uid"],
                    "batch.kubernetes.io/job-name": body["metadata"]["name"],
                },
            },
            "spec": {"nodeName": f"node-{index}"},
            "status": {**began, **status},
        }
        body["status"] = {"startTime": stamp(self.now), "active": 1}
        self.logs[name] = log

    def crash(self, exit_code: int, words: str, index: int = 0) -> None:
        """Let the container of a pod crash and wait for its restart."""
        container = {
            "name": "main",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": exit_code, "message": words, "finishedAt": stamp(self.now)}},
        }
        self.worker(index, phase="Running", containerStatuses=[container])


def mirror_line(at: datetime = START, **figures: Any) -> str:
    """Return a progress line of ``gapless mirror``."""
    lag = {"lag_records": figures.get("lag_records", 0), "lag_seconds": figures.get("lag_seconds", 0.0)}
    topic = MirroredTopicLine(topic="orders", target="orders", partitions=3, **lag)
    line: dict[str, Any] = {
        "time": stamp(at),
        "name": "mirrors.orders",
        "engine": "workers",
        "worker": "pod-1",
        "state": "copying",
        "lanes": 8,
        "lanes_owned": 8,
        "records": 700,
        "bytes": 7000,
        "partitions": 3,
        "partitions_with_lag": 0,
        "lag_records": 0,
        "lag_seconds": 0.0,
        "retention_seconds": None,
        "heartbeat_age_seconds": 1.0,
        "last_commit": stamp(at),
        "lost_records": 0,
        "topics": (topic,),
        "topics_omitted": 0,
        "problems": (),
        "problems_omitted": 0,
        **figures,
    }
    return MIRROR_LINE.to_line(MirrorLine(**line)) + "\n"


def a_problem(reason: str, topic: str = "orders", message: str = "It stands.") -> MirrorProblem:
    """Return the problem of a topic that is not copied."""
    return MirrorProblem(reason=StallReason(reason), topic=topic, partition=1, since=stamp(START), message=message)


@pytest.fixture
def mirror() -> Callable[..., MirrorCluster]:
    """Creates a cluster with one Mirror; keyword arguments are fields of its spec, and None removes one."""

    def make(*, spark_operator: bool = False, name: str = "orders", **spec: Any) -> MirrorCluster:
        given = {field: part for field, part in {**MIRROR, **spec}.items() if part is not None}
        return MirrorCluster(
            new_resource("Mirror", name, "mirrors", given),
            reconcile_mirror,
            {"spark": SPARK, "workers": WORKERS},
            spark_operator=spark_operator,
            kafkas=copy.deepcopy(KAFKAS),
        )

    return make


@pytest.fixture
def line() -> Callable[..., str]:
    """Creates progress lines of ``gapless mirror``."""
    return mirror_line


@pytest.fixture
def problem() -> Callable[..., MirrorProblem]:
    """Creates the problems of a progress line."""
    return a_problem
