"""A Mirror and an Archive of the same topics keep every record once, while their pods are killed and upgraded."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kit.cluster.locations import volume
from kit.cluster.places import ClusterError
from kit.cluster.product import (
    API_VERSION,
    ARCHIVE_NAMESPACE,
    MIRROR_NAMESPACE,
    OPERATOR_NAMESPACE,
    Installation,
    condition_of,
    image_tags,
    images_of,
    running_pods,
)

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.timeout(900)
TOPIC, PARTITIONS = "transfer-mirrored", 4
SQL_TOPIC = "transfer-masked"
SOURCE, TARGET = "north", "hall"
AS_JOB = {"type": "Job", "reader": "Local", "driver": {"cores": 1, "cpu": "200m", "memory": "512Mi"}}
READ_METRICS = """
import ssl, sys, urllib.error, urllib.request
request = urllib.request.Request("https://localhost:8080/metrics/workers")
request.add_header("Authorization", "Bearer " + sys.stdin.read().strip())
try:
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""
WHAT_THERE_IS = """
import glob, json, os
commands = [open(name).read() for name in glob.glob("/proc/[0-9]*/cmdline")]
print(json.dumps({
    "settings": os.path.exists("/etc/gapless"),
    "token": os.path.exists("/var/run/secrets/kubernetes.io"),
    "commands": commands,
    "shared": os.listdir("/run/gapless"),
}))
"""
AT_ONCE = ("--grace-period=0", "--force")


def test_a_mirror_and_an_archive_keep_every_record_once_while_pods_are_killed_and_upgraded(
    installed: Installation, cluster_kafka: TwoSides, next_version: str
) -> None:
    cluster, kafka = installed.cluster, cluster_kafka
    kafka.upstream.create_topic(TOPIC, PARTITIONS)
    open_clusters(cluster, kafka)
    volume(cluster, "archive", ARCHIVE_NAMESPACE)
    with records(kafka.upstream) as written:
        cluster.apply(
            body(
                "Archive",
                "mirrored",
                ARCHIVE_NAMESPACE,
                kafkaRef={"name": SOURCE},
                storageRef={"name": "archive"},
                region="north",
                topics=[TOPIC],
                engine=AS_JOB,
                segments={"maxAgeSeconds": 1},
            )
        )
        workers = {"count": 2, "cpu": "100m", "memory": "256Mi"}
        cluster.apply(
            body(
                "Mirror",
                "copy",
                MIRROR_NAMESPACE,
                sourceRef={"name": SOURCE},
                targetRef={"name": TARGET},
                topics=[TOPIC],
                workers=workers,
            )
        )
        begun = wait_for(cluster, "mirror", "copy", MIRROR_NAMESPACE, lambda status: status.get("workers") == 2)
        assert (begun["mirrorName"], begun["engine"]) == (f"{MIRROR_NAMESPACE}.copy", "Workers")
        wait_for(cluster, "mirror", "copy", MIRROR_NAMESPACE, is_ready("Mirroring"))

        read_by_the_operator(cluster, pods(cluster, MIRROR_NAMESPACE, begun["lastAttempt"]["name"]))

        # A drain evicts one worker at a time.
        pair = pods(cluster, MIRROR_NAMESPACE, begun["lastAttempt"]["name"])
        wait_until(lambda: allowed_evictions(cluster) == 1)
        evict(cluster, pair[0])
        with pytest.raises(ClusterError, match="disruption budget"):
            evict(cluster, pair[1])
        wait_until(lambda: allowed_evictions(cluster) == 1)
        wait_for(cluster, "mirror", "copy", MIRROR_NAMESPACE, lambda status: status.get("workers") == 2)

        # A worker ends with its last message: the kubelet starts it again in its pod, and its new log is read.
        first = begun["lastAttempt"]["name"]
        stopped = pods(cluster, MIRROR_NAMESPACE, first)[0]
        stop = "import os, signal; os.kill(1, signal.SIGTERM)"
        cluster.kubectl("exec", stopped, f"--namespace={MIRROR_NAMESPACE}", "--", "python3", "-c", stop)
        wait_until(lambda: restarts(cluster, stopped) == 1)
        wait_for(cluster, "mirror", "copy", MIRROR_NAMESPACE, lambda status: status.get("workers") == 2)
        wait_for(cluster, "mirror", "copy", MIRROR_NAMESPACE, is_ready("Mirroring"))

        # A worker is killed: the other one has its lanes, and the Job replaces it.
        killed = pods(cluster, MIRROR_NAMESPACE, first)[0]
        cluster.kubectl("delete", "pod", killed, f"--namespace={MIRROR_NAMESPACE}", *AT_ONCE)
        wait_until(lambda: len(set(pods(cluster, MIRROR_NAMESPACE, first)) - {killed}) == 2)

        # The pod of the Archive, too.
        archived = wait_for(cluster, "archive", "mirrored", ARCHIVE_NAMESPACE, is_ready("Archiving"))
        archive = archived["lastAttempt"]["name"]
        (pod,) = pods(cluster, ARCHIVE_NAMESPACE, archive)
        cluster.kubectl("delete", "pod", pod, f"--namespace={ARCHIVE_NAMESPACE}", *AT_ONCE)

        # Limits change without another pod.
        before = set(pods(cluster, MIRROR_NAMESPACE, first))
        patch(cluster, "mirror", "copy", limits={"maxRecordsPerSecond": 100_000})
        wait_until(lambda: "maxRecordsPerSecond=50000" in limits(cluster))
        assert set(pods(cluster, MIRROR_NAMESPACE, first)) == before

        # An upgrade replaces all of them, when another pod has taken the Archive over.
        archived = wait_for(
            cluster,
            "archive",
            "mirrored",
            ARCHIVE_NAMESPACE,
            lambda status: (
                (attempt := status["lastAttempt"]["name"]) != archive
                and len(pods(cluster, ARCHIVE_NAMESPACE, attempt)) == 1
            ),
        )
        upgrade(installed, next_version, mirror=first, archive=archived["lastAttempt"]["name"])
        copied_before = len(written)
        wait_until(lambda: len(kafka.downstream.read(TOPIC)) > copied_before)

    done = wait_for(
        cluster,
        "mirror",
        "copy",
        MIRROR_NAMESPACE,
        lambda status: len(kafka.downstream.read(TOPIC)) >= len(written) and status.get("lagRecords") == 0,
    )
    assert done.get("lostRecords", 0) == 0
    # Each value is another one, so a record that is there twice, or not, is seen.
    copied = events_in(kafka.downstream)
    assert copied == events_in(kafka.upstream)
    assert Counter(value for part in copied.values() for _, value in part) == Counter(written)
    kept = wait_for(
        cluster,
        "archive",
        "mirrored",
        ARCHIVE_NAMESPACE,
        lambda status: status.get("lagRecords") == 0 and status.get("records") == len(written),
    )
    assert kept["records"] == len(written)
    cluster.delete("mirror", "copy", MIRROR_NAMESPACE, wait=False)
    cluster.delete("archive", "mirrored", ARCHIVE_NAMESPACE, wait=False)


def test_sql_runs_in_a_container_that_has_nothing_of_its_worker_and_may_end(
    installed: Installation, cluster_kafka: TwoSides
) -> None:
    cluster, kafka, name = installed.cluster, cluster_kafka, "masked"
    kafka.upstream.create_topic(SQL_TOPIC, 1)
    open_clusters(cluster, kafka, SQL_TOPIC)
    kafka.upstream.produce(SQL_TOPIC, [b"user %d" % number for number in range(100)])
    cluster.apply(
        body(
            "Mirror",
            name,
            MIRROR_NAMESPACE,
            sourceRef={"name": SOURCE},
            targetRef={"name": TARGET},
            topics=[SQL_TOPIC],
            transform="SELECT regexp_replace(CAST(value AS STRING), '[0-9]', '*') AS value\nFROM records",
            workers={"count": 1, "cpu": "100m", "memory": "256Mi"},
            spark={"driver": {"cores": 1, "cpu": "200m", "memory": "512Mi"}},
            heartbeat=False,
        )
    )
    status = wait_for(cluster, "mirror", name, MIRROR_NAMESPACE, is_ready("Mirroring"))
    assert status["engine"] == "Workers"
    wait_until(lambda: len(kafka.downstream.read(SQL_TOPIC)) == 100)
    (pod,) = pods(cluster, MIRROR_NAMESPACE, status["lastAttempt"]["name"])

    def within(container: str, program: str) -> Any:
        where = (pod, f"--namespace={MIRROR_NAMESPACE}", f"--container={container}")
        return json.loads(cluster.kubectl("exec", *where, "--", "python3", "-c", program))

    (worker,) = (each["name"] for each in (cluster.get("pod", pod, MIRROR_NAMESPACE) or {})["spec"]["containers"])
    assert within(worker, WHAT_THERE_IS)["settings"]
    there = within("sql", WHAT_THERE_IS)
    assert (there["settings"], there["token"]) == (False, False)
    assert not any("mirror.properties" in command for command in there["commands"])
    assert any("evaluate" in command for command in there["commands"])
    assert there["shared"] == within(worker, WHAT_THERE_IS)["shared"] == ["sql.sock"]

    # Its end is not that of the worker, which goes on with the next one.
    cluster.kubectl(
        *("exec", pod, f"--namespace={MIRROR_NAMESPACE}", "--container=sql", "--"),
        *("python3", "-c", "import os, signal; os.kill(1, signal.SIGTERM)"),
    )
    wait_until(lambda: sql_restarts(cluster, pod) == 1)
    kafka.upstream.produce(SQL_TOPIC, [b"user %d" % number for number in range(100, 200)])
    wait_until(lambda: len(kafka.downstream.read(SQL_TOPIC)) == 200)
    wait_for(cluster, "mirror", name, MIRROR_NAMESPACE, is_ready("Mirroring"))
    expected = [re.sub(rb"[0-9]", b"*", b"user %d" % number) for number in range(200)]
    assert [message.value() for message in kafka.downstream.read(SQL_TOPIC)] == expected
    assert restarts(cluster, pod) == 0

    # What it cannot do is said, and nothing is copied.
    patch(cluster, "mirror", name, transform="SELECT * FROM records")
    refused = wait_for(cluster, "mirror", name, MIRROR_NAMESPACE, is_not_ready("BadConfiguration"))
    assert "The transform cannot be applied" in json.dumps(refused["conditions"])
    cluster.delete("mirror", name, MIRROR_NAMESPACE, wait=False)


def test_a_cluster_is_checked_when_the_annotation_changes(installed: Installation, cluster_kafka: TwoSides) -> None:
    cluster = installed.cluster
    open_clusters(cluster, cluster_kafka)
    for number, value in enumerate(("today", "tomorrow"), start=1):
        annotation = f"gapless.dev/doctor={value}"
        place = f"--namespace={MIRROR_NAMESPACE}"
        cluster.kubectl("annotate", "kafkaconnection", TARGET, annotation, "--overwrite", place)
        status = wait_for(
            cluster,
            "kafkaconnection",
            TARGET,
            MIRROR_NAMESPACE,
            lambda found, value=value: (
                found.get("doctor", {}).get("request") == value and bool(found["lastAttempt"].get("outcome"))
            ),
        )
        assert condition_of(status, "Healthy") in {("True", "NothingFound"), ("False", "ProblemsFound")}
        doctor = status["doctor"]
        assert doctor["checkedAt"]
        counted = Counter(finding["severity"] for finding in doctor["findings"])
        if not doctor.get("findingsOmitted"):
            assert counted == Counter(
                {"Error": doctor["errors"], "Warning": doctor["warnings"], "Note": doctor["notes"]}
            )
        assert status["runs"] == number


def allowed_evictions(cluster: Cluster) -> int:
    """How many workers may be evicted now."""
    (budget,) = cluster.list("poddisruptionbudget", MIRROR_NAMESPACE)
    return int(budget.get("status", {}).get("disruptionsAllowed", 0))


def evict(cluster: Cluster, pod: str) -> None:
    """Evict a pod as `kubectl drain` does. Raises ClusterError if it must stay."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": MIRROR_NAMESPACE},
    }
    path = f"/api/v1/namespaces/{MIRROR_NAMESPACE}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f=-", stdin=json.dumps(eviction))


def upgrade(installed: Installation, version: str, *, mirror: str, archive: str) -> None:
    """Upgrade while both copy, and wait until attempts other than these run in the images of the new version."""
    cluster = installed.cluster
    installed.upgrade(**image_tags(version))
    (operator,) = running_pods(cluster, OPERATOR_NAMESPACE, "app.kubernetes.io/component=operator")
    assert images_of([operator]) == {f"gapless/operator:{version}"}
    for kind, name, namespace, before, image, count in (
        ("mirror", "copy", MIRROR_NAMESPACE, mirror, "sender", 2),
        ("archive", "mirrored", ARCHIVE_NAMESPACE, archive, "spark", 1),
    ):
        found = wait_for(
            cluster,
            kind,
            name,
            namespace,
            lambda status, namespace=namespace, before=before, count=count: (
                (attempt := status["lastAttempt"]["name"]) != before and len(pods(cluster, namespace, attempt)) == count
            ),
        )
        assert found["failures"] == 0
        attempt = found["lastAttempt"]["name"]
        assert images_of(running_pods(cluster, namespace, of_job(attempt))) == {f"gapless/{image}:{version}"}
        assert not pods(cluster, namespace, before)


def body(kind: str, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def open_clusters(cluster: Cluster, kafka: TwoSides, *more: str) -> None:
    """The KafkaConnections of both clusters, where they are needed, for the topic and `more`."""
    topics = [TOPIC, *more]
    both = ["Read", "Write"]
    for name, namespace, bootstrap in (
        (SOURCE, MIRROR_NAMESPACE, kafka.upstream.bootstrap),
        (TARGET, MIRROR_NAMESPACE, kafka.downstream.bootstrap),
        (SOURCE, ARCHIVE_NAMESPACE, kafka.upstream.bootstrap),
    ):
        cluster.apply(
            body("KafkaConnection", name, namespace, bootstrapServers=bootstrap, allowedTopics=topics, access=both)
        )


@contextmanager
def records(kafka: KafkaBroker) -> Iterator[list[bytes]]:
    """Write a few hundred records a second while the block runs, and give their values."""
    values: list[bytes] = []
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            begin = len(values)
            batch = [f"value-{number}".encode() for number in range(begin, begin + 100)]
            kafka.produce(TOPIC, batch, partition=begin // 100 % PARTITIONS)
            values.extend(batch)
            is_over.wait(0.5)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield values
    finally:
        is_over.set()
        writer.join(60)


def events_in(kafka: KafkaBroker) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values of the topic, by partition, in their order."""
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for message in kafka.read(TOPIC):
        found.setdefault(message.partition() or 0, []).append((message.key(), message.value()))
    return found


def is_ready(reason: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: bool(status.get("conditions")) and condition_of(status, "Ready") == ("True", reason)


def is_not_ready(reason: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: bool(status.get("conditions")) and condition_of(status, "Ready") == ("False", reason)


def wait_for(
    cluster: Cluster, kind: str, name: str, namespace: str, done: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the status of an object says something, and return it."""
    found = cluster.wait_for(
        kind, name, lambda one: done(one.get("status", {})), namespace=namespace, timeout_seconds=240
    )
    status: dict[str, Any] = found["status"]
    return status


def wait_until(holds: Callable[[], bool], *, timeout_seconds: float = 120) -> None:
    ends = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < ends, "it has not come true"
        time.sleep(1)


def restarts(cluster: Cluster, pod: str) -> int:
    """How often the containers of a pod that is running were started again."""
    body = cluster.get("pod", pod, MIRROR_NAMESPACE) or {}
    states = body["status"].get("containerStatuses", [])
    return sum(state["restartCount"] for state in states) if all(state["ready"] for state in states) else -1


def sql_restarts(cluster: Cluster, pod: str) -> int:
    """How often the container for SQL was started again, if it runs."""
    body = cluster.get("pod", pod, MIRROR_NAMESPACE) or {}
    (state,) = body["status"].get("initContainerStatuses", [])
    return int(state["restartCount"]) if state["started"] else -1


def read_by_the_operator(cluster: Cluster, workers: list[str]) -> None:
    """Read the metrics of all workers as Prometheus does, with the token of an account that may."""
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads-metrics"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "gapless-metrics"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": MIRROR_NAMESPACE}],
    }
    cluster.apply(binding)
    token = cluster.kubectl("create", "token", "default", f"--namespace={MIRROR_NAMESPACE}").strip()
    where = ("deployment/gapless-operator", f"--namespace={OPERATOR_NAMESPACE}")

    def metrics(given: str) -> str:
        return cluster.kubectl("exec", "--stdin", *where, "--", "python3", "-c", READ_METRICS, stdin=given)

    def found() -> bool:
        lanes = re.findall(r'gapless_mirror_lanes_owned{.*namespace="([^"]+)",pod="([^"]+)"} [1-9]', metrics(token))
        return sorted(lanes) == sorted((MIRROR_NAMESPACE, worker) for worker in workers)

    wait_until(found)
    assert metrics("none").strip() == "401"


def pods(cluster: Cluster, namespace: str, job: str) -> list[str]:
    """The names of the pods of a Job that run."""
    return [pod["metadata"]["name"] for pod in running_pods(cluster, namespace, of_job(job))]


def of_job(name: str) -> str:
    """What selects the pods of a Job."""
    return f"batch.kubernetes.io/job-name={name}"


def limits(cluster: Cluster) -> str:
    """The file of limits as a worker of the Mirror sees it."""
    found = cluster.list("configmap", MIRROR_NAMESPACE, "gapless.dev/role=limits")
    return json.dumps([one.get("data") for one in found])


def patch(cluster: Cluster, kind: str, name: str, **spec: Any) -> None:
    """Change the spec as a person would."""
    change = json.dumps({"spec": spec})
    cluster.kubectl("patch", kind, name, f"--namespace={MIRROR_NAMESPACE}", "--type=merge", "-p", change)
