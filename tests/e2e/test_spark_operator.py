"""Scans as SparkApplications of the real Spark operator, with two executors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from kit.cluster.product import SCAN_NAMESPACE, SENDER_NAMESPACE, Site

if TYPE_CHECKING:
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(400)
EXECUTORS = 2
SMALL = {"cores": 1, "cpu": "200m", "memory": "512Mi"}


def test_an_audit_with_two_executors_finds_exactly_what_is_missing(spark_operator: Cluster, site: Site) -> None:
    cluster = spark_operator
    site.fill(6000)
    cluster.apply(site.diode())
    name = f"{site.name}-live"
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    site.link.change(drop=0.05)
    cluster.apply(site.everything(name))
    cluster.wait_for("resend", name, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)
    lost = site.compare().missing
    assert lost

    engine = {"type": "SparkApplication", "driver": SMALL, "executor": {**SMALL, "instances": EXECUTORS}}
    source = {"events": {"topics": [site.topic], "expect": site.expected}}
    scan = f"{site.name}-audit"
    cluster.apply(site.gap_scan(scan, source=source, engine=engine))
    executors = _executors_seen(cluster, scan)
    done = cluster.wait_for("gapscan", scan, "Ready", namespace=SCAN_NAMESPACE, timeout_seconds=240)
    assert done["status"]["missingEvents"] == lost
    assert done["status"]["lastAttempt"]["engine"] == "SparkApplication"
    assert done["status"]["readBy"] == "spark"
    assert len(executors) == EXECUTORS
    attempt = done["status"]["lastAttempt"]["name"]
    application = cluster.get("sparkapplication", attempt, SCAN_NAMESPACE)
    assert application is not None
    assert application["spec"]["restartPolicy"] == {"type": "Never"}
    assert application["metadata"]["ownerReferences"][0]["kind"] == "GapScan"

    # What it found is what a resend closes.
    site.link.change(drop=0.0)
    cluster.apply(done["status"]["resendManifest"], server_side=True)
    resend = next(
        each["metadata"]["name"]
        for each in cluster.list("resend", SENDER_NAMESPACE)
        if each["metadata"]["name"].startswith(scan)
    )
    cluster.wait_for("resend", resend, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)
    assert site.compare().complete


def test_auto_takes_a_spark_application_with_executors_for_a_gaps_topic(spark_operator: Cluster, site: Site) -> None:
    cluster = spark_operator
    window = struct.pack(">Bqq", 1, 0, 999) + BitMap(range(100, 120)).serialize()
    site.kafka.downstream.produce(site.gap_topic, [window], keys=[f"{site.topic}:0:0".encode()])
    scan = f"{site.name}-auto"
    engine = {"type": "Auto", "driver": SMALL, "executor": {**SMALL, "instances": EXECUTORS}}
    source = {"gapTopic": {"topic": site.gap_topic}}
    cluster.apply(site.gap_scan(scan, source=source, engine=engine, podTemplate="batch"))
    executors = _executors_seen(cluster, scan, ",example.com/pool=batch")
    done = cluster.wait_for("gapscan", scan, "Ready", namespace=SCAN_NAMESPACE, timeout_seconds=240)
    assert done["status"]["lastAttempt"]["engine"] == "SparkApplication"
    assert done["status"]["readBy"] == "spark"
    assert done["status"]["missingEvents"] == 20
    assert len(executors) == EXECUTORS


def _executors_seen(cluster: Cluster, scan: str, added: str = "") -> set[str]:
    """Names of executor pods that ran for a scan; looked for while it runs, because Spark deletes them at its end."""
    # The platform team's labels are in the chart's podTemplate, and in the template that the scan names.
    selector = f"spark-role=executor,gapless.dev/name={scan},example.com/team=platform{added}"
    found: set[str] = set()

    def ran(body: dict[str, Any]) -> bool:
        pods = cluster.list("pod", SCAN_NAMESPACE, selector)
        found.update(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in {"Running", "Succeeded"})
        conditions = body.get("status", {}).get("conditions", [])
        is_over = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return len(found) == EXECUTORS or is_over

    cluster.wait_for("gapscan", scan, ran, namespace=SCAN_NAMESPACE, timeout_seconds=240)
    return found
