"""What Kafka has deleted comes back from an archive: to the receiving side by a Resend, and to Kafka by a Restore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kit.cluster.locations import bucket, volume
from kit.cluster.product import ARCHIVE_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE, Site, condition_of
from kit.machine.processes import wait_until
from kit.object_store import ObjectStore, object_store_jars

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.timeout(900)
SMALL = {"cores": 1, "cpu": "200m", "memory": "512Mi"}
AS_JOB = {"type": "Job", "reader": "Local", "driver": SMALL}
QUICK = {"maxAgeSeconds": 1}


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ObjectStore]:
    """An S3-compatible store that pods reach."""
    with cluster.host_network():  # where its program can be had if the cache has lost it
        object_store_jars()
    with ObjectStore(address=cluster.near_address) as running:
        yield running


def test_events_that_kafka_has_deleted_come_back_over_the_link(cluster: Cluster, site: Site) -> None:
    site.fill(3000)
    cluster.apply(site.diode())
    volume(cluster, "archive", SENDER_NAMESPACE)
    archive = f"{site.name}-kept"
    cluster.apply(site.archive(archive, SENDER_NAMESPACE, engine=AS_JOB, segments=QUICK))
    kept = wait_for_archive(cluster, archive, SENDER_NAMESPACE, has(3000))
    assert condition_of(kept, "Ready") == ("True", "Archiving")
    assert kept["readBy"] == "local"
    first = kept["lastAttempt"]["name"]
    assert kept["lastAttempt"]["engine"] == "Job"

    # Its pod is killed; another one takes over, and nothing is archived twice.
    (pod,) = cluster.list("pod", SENDER_NAMESPACE, f"batch.kubernetes.io/job-name={first}")
    at_once = ["--grace-period=0", "--force"]
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], f"--namespace={SENDER_NAMESPACE}", *at_once)
    again = wait_for_archive(
        cluster, archive, SENDER_NAMESPACE, lambda status: status["lastAttempt"]["name"] != first and has(3000)(status)
    )
    assert again["records"] == 3000

    # Some events are lost on the link, and found to be missing.
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    site.link.change(drop=0.1)
    cluster.apply(site.everything(f"{site.name}-live"))
    cluster.wait_for("resend", f"{site.name}-live", "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)
    lost = site.compare().missing
    assert lost
    site.link.change(drop=0.0)
    upstream = sent_events(site)
    scan = f"{site.name}-audit"
    found = audited(cluster, site, scan)
    assert found["missingEvents"] == lost

    # Meanwhile Kafka has deleted all of them upstream.
    for partition, (_, end) in site.kafka.upstream.watermarks(site.topic).items():
        site.kafka.upstream.delete_records(site.topic, partition, end)
    resend = yaml.safe_load(found["resendManifest"])
    resend["spec"] |= {"fallback": {"archiveRef": {"name": archive}}, "mode": "Plan"}
    name = resend["metadata"]["name"]
    cluster.apply(resend)
    planned = cluster.wait_for("resend", name, "Ready", namespace=SENDER_NAMESPACE, timeout_seconds=120)["status"]
    assert (planned["plan"]["events"], planned["plan"]["unavailable"]) == (lost, 0)
    patch(cluster, "resend", name, SENDER_NAMESPACE, mode="Send")
    sent = cluster.wait_for("resend", name, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=180)["status"]
    assert (sent["progress"]["sent"], sent["progress"]["unavailable"]) == (lost, 0)

    closed = audited(cluster, site, scan, copies=2)
    assert closed["missingEvents"] == 0
    assert condition_of(closed, "GapsClosed") == ("True", "AllClosed")
    site.settle()
    assert received_events(site) == upstream


def test_a_restore_plans_first_and_brings_a_topic_back(spark_operator: Cluster, site: Site) -> None:
    cluster = spark_operator
    site.fill(2000)
    volume(cluster, "archive", ARCHIVE_NAMESPACE)
    archive = f"{site.name}-night"
    engine = {"type": "SparkApplication", "driver": SMALL, "executor": {**SMALL, "instances": 1}}
    cluster.apply(site.archive(archive, ARCHIVE_NAMESPACE, engine=engine, schedule={"cron": "* * * * *"}))
    kept = wait_for_archive(cluster, archive, ARCHIVE_NAMESPACE, ended_as("Archived"))
    assert kept["lastAttempt"]["engine"] == "SparkApplication"
    in_kafka = site.kafka.upstream.watermarks(site.topic)
    assert (kept["records"], kept["lagRecords"], kept["readBy"]) == (2000, 0, "spark"), (in_kafka, kept)
    patch(cluster, "archive", archive, ARCHIVE_NAMESPACE, suspend=True)

    target, name = f"{site.topic}-restored", f"{site.name}-back"
    cluster.apply(site.restore(name, archive, target, engine=AS_JOB, adjustRetention="WhileRestoring"))
    planned = cluster.wait_for("restore", name, "Ready", namespace=ARCHIVE_NAMESPACE, timeout_seconds=240)["status"]
    assert condition_of(planned, "Ready") == ("True", "Planned")
    assert planned["plan"]["records"] == 2000
    assert planned["plan"]["topics"][0]["create"] is True
    assert target not in site.kafka.upstream.admin().list_topics(timeout=10).topics

    patch(cluster, "restore", name, ARCHIVE_NAMESPACE, mode="Once")
    done = cluster.wait_for("restore", name, "Succeeded", namespace=ARCHIVE_NAMESPACE, timeout_seconds=300)["status"]
    assert condition_of(done, "Succeeded") == ("True", "Restored")
    assert (done["progress"]["restored"], done["progress"]["percent"]) == (2000, 100)
    assert events_in(site.kafka.upstream, target) == events_in(site.kafka.upstream, site.topic)


def test_a_restore_follows_an_archive_in_a_bucket_whose_segments_are_joined_by_a_schedule(
    cluster: Cluster, site: Site, store: ObjectStore
) -> None:
    site.kafka.upstream.create_topic(site.topic, site.partitions)
    write_records(site, 0, 100)
    bucket(cluster, "store", ARCHIVE_NAMESPACE, store)
    archive, target, name = f"{site.name}-joined", f"{site.topic}-followed", f"{site.name}-follower"
    eager = {"minSegmentAgeSeconds": 0, "minSegmentCount": 2, "minSegmentBytes": 1, "gracePeriodSeconds": 1}
    spec = {"storageRef": {"name": "store"}, "engine": AS_JOB, "segments": QUICK}
    compaction = {"schedule": {"cron": "*/15 * * * * *"}, **eager}
    # Whoever keeps both in Git applies them together: the Restore waits until something is archived.
    cluster.apply(
        site.archive(archive, ARCHIVE_NAMESPACE, **spec, compaction=compaction, suspend=True),
        site.restore(name, archive, target, engine=AS_JOB, mode="Follow"),
    )
    cluster.wait_for("restore", name, waits_for_archive, namespace=ARCHIVE_NAMESPACE, timeout_seconds=180)
    patch(cluster, "archive", archive, ARCHIVE_NAMESPACE, suspend=False)
    wait_for_archive(cluster, archive, ARCHIVE_NAMESPACE, has(100 * site.partitions))
    wait_for_restored(cluster, name, 100 * site.partitions)

    # A second segment of each partition is what the compaction waits for.
    write_records(site, 100, 200)
    joined = wait_for_archive(cluster, archive, ARCHIVE_NAMESPACE, has_joined)
    assert joined["compaction"]["lastAttempt"]["outcome"] == "CompactionDone"
    wait_until(lambda: len(joined_segments(store)) >= site.partitions, timeout_seconds=120, what="joining the rest")
    wait_for_restored(cluster, name, 200 * site.partitions)
    # What comes later is archived behind the joined segments, and restored from there.
    write_records(site, 200, 300)
    wait_for_restored(cluster, name, 300 * site.partitions)

    # It ends when it is told to.
    patch(cluster, "restore", name, ARCHIVE_NAMESPACE, mode="Once")
    done = cluster.wait_for("restore", name, "Succeeded", namespace=ARCHIVE_NAMESPACE, timeout_seconds=120)["status"]
    assert (done["progress"]["restored"], done["progress"].get("lost", 0)) == (300 * site.partitions, 0)
    assert events_in(site.kafka.upstream, target) == events_in(site.kafka.upstream, site.topic)


def joined_segments(store: ObjectStore) -> list[str]:
    """The objects of level 1 in the bucket, looked up past the product."""
    return [key for key in store.keys("store") if key.endswith(".parquet") and key.split("/")[-2] == "1"]


def write_records(site: Site, begin: int, end: int) -> None:
    """Write records with values of their own to each partition."""
    for partition in range(site.partitions):
        values = [f"{partition}-{number}".encode() for number in range(begin, end)]
        site.kafka.upstream.produce(site.topic, values, partition=partition)


def has_joined(status: dict[str, Any]) -> bool:
    """Whether the last compaction of an archive has made fewer segments out of more."""
    compaction = status.get("compaction", {})
    return compaction.get("segmentsBefore", 0) > compaction.get("segmentsAfter", 0) > 0


def waits_for_archive(found: dict[str, Any]) -> bool:
    """Whether a Restore says that the archive has nothing of its topic yet."""
    status = found.get("status", {})
    return "conditions" in status and condition_of(status, "Ready") == ("False", "WaitingForArchive")


def wait_for_restored(cluster: Cluster, name: str, records: int) -> None:
    """Wait until a Restore has written so many records, and waits for more."""

    def follows(found: dict[str, Any]) -> bool:
        status = found.get("status", {})
        has_written = status.get("progress", {}).get("restored") == records
        return has_written and condition_of(status, "Ready") == ("True", "Following")

    cluster.wait_for("restore", name, follows, namespace=ARCHIVE_NAMESPACE, timeout_seconds=180)


def has(records: int) -> Callable[[dict[str, Any]], bool]:
    """Whether an archive has so many records, and nothing is left to archive."""
    return lambda status: status.get("records") == records and status.get("lagRecords") == 0


def ended_as(outcome: str) -> Callable[[dict[str, Any]], bool]:
    """Whether an attempt has ended so."""
    return lambda status: status.get("lastAttempt", {}).get("outcome") == outcome


def wait_for_archive(
    cluster: Cluster, name: str, namespace: str, done: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the status of an Archive says something, and return it."""
    found = cluster.wait_for(
        "archive", name, lambda body: done(body.get("status", {})), namespace=namespace, timeout_seconds=300
    )
    status: dict[str, Any] = found["status"]
    return status


def patch(cluster: Cluster, kind: str, name: str, namespace: str, **spec: Any) -> None:
    """Change the spec as a person would."""
    change = json.dumps({"spec": spec})
    cluster.kubectl("patch", kind, name, f"--namespace={namespace}", "--type=merge", "-p", change)


def audited(cluster: Cluster, site: Site, name: str, *, copies: int = 1) -> dict[str, Any]:
    """Apply the GapScan, or change it, and wait until a scan for it has ended; return its status."""
    source = {"events": {"topics": [site.topic], "expect": site.expected}}
    body = site.gap_scan(name, source=source, engine={**AS_JOB})
    body["spec"]["resend"]["copies"] = copies
    cluster.apply(body)

    def has_ended(found: dict[str, Any]) -> bool:
        last = found.get("status", {}).get("lastAttempt", {})
        return last.get("generation") == found["metadata"]["generation"] and bool(last.get("outcome"))

    found = cluster.wait_for("gapscan", name, has_ended, namespace=SCAN_NAMESPACE, timeout_seconds=240)
    status: dict[str, Any] = found["status"]
    return status


def events_in(kafka: KafkaBroker, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values of a topic, by partition, in their order."""
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for message in kafka.read(topic):
        found.setdefault(message.partition() or 0, []).append((message.key(), message.value()))
    return found


def sent_events(site: Site) -> dict[tuple[int, int], bytes]:
    """Values upstream by partition and offset; the wire makes null and empty the same."""
    read = site.kafka.upstream.read(site.topic)
    return {(message.partition() or 0, message.offset() or 0): message.value() or b"" for message in read}


def received_events(site: Site) -> dict[tuple[int, int], bytes]:
    """The same of what arrived, by the ids of the events."""
    found = {}
    for message in site.kafka.downstream.read(site.topic):
        topic, partition, offset = (message.key() or b"").decode().rsplit("_", 2)
        assert topic == site.topic
        found[int(partition), int(offset)] = message.value() or b""
    return found
