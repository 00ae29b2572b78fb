"""What a GapScan says of what it cannot know: a gaps topic that forgets, and events that expired unread."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from kit.cluster.product import SCAN_NAMESPACE, Site, condition_of

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

pytestmark = pytest.mark.timeout(600)
LOCALLY = {"type": "Job", "reader": "Local"}


def test_a_gaps_topic_that_is_not_purely_compacted_is_said_and_a_gap_without_a_record_is_not_closed(
    cluster: Cluster, make_site: SiteFactory, cluster_kafka: TwoSides
) -> None:
    site, kafka = make_site(), cluster_kafka.downstream
    gaps = kafka.create_topic(f"gaps-{site.name}-forgetful", 1, **{"cleanup.policy": "delete"})
    report_gap(kafka, gaps, [3, 4, 5])
    name = f"{site.name}-forgetful"
    found = scanned(cluster, site, name, {"gapTopic": {"topic": gaps}})
    assert condition_of(found, "GapTopicCompacted") == ("False", "NotCompacted")
    assert (found["gapTopicCleanupPolicy"], found["missingEvents"]) == ("delete", 3)

    kafka.delete_records(gaps, 0, 1)  # as retention does
    found = scanned(cluster, site, name, {"gapTopic": {"topic": gaps, "detectorWindows": 6}})
    assert found["missingEvents"] == 0
    assert condition_of(found, "GapsClosed") == ("Unknown", "NotCompacted")
    assert (found["closedEventsTotal"], found["unverifiedEvents"]) == (0, 3)
    warnings = cluster.kubectl(
        "get", "events", f"-n={SCAN_NAMESPACE}", "-o=json", f"--field-selector=involvedObject.name={name}"
    )
    assert "NotCompacted" in {event["reason"] for event in json.loads(warnings)["items"]}

    kafka.alter_topic(gaps, **{"cleanup.policy": "compact"})
    found = scanned(cluster, site, name, {"gapTopic": {"topic": gaps, "detectorWindows": 7}})
    assert condition_of(found, "GapTopicCompacted") == ("True", "Compacted")
    assert found["gapTopicCleanupPolicy"] == "compact"
    assert found["unverifiedEvents"] == 3, "what was forgotten stays so, until an audit"


def test_events_that_expired_before_an_audit_read_them_are_unknown_and_in_a_bundle_only_when_asked_for(
    cluster: Cluster, make_site: SiteFactory, cluster_kafka: TwoSides
) -> None:
    site, kafka = make_site(), cluster_kafka.downstream
    topic = kafka.create_topic(f"transfer-{site.name}-received", 1)
    kafka.produce(topic, [b"event"] * 50, keys=[f"{topic}_0_{offset}".encode() for offset in range(50)])
    kafka.delete_records(topic, 0, 40)
    name, wanted = f"{site.name}-expired", {"topics": [topic], "expect": [f"{topic}:0:0-49"]}
    found = scanned(cluster, site, name, {"events": wanted})
    assert found["lastAttempt"]["outcome"] == "UnknownEvents", found
    assert (found["missingEvents"], found["unknownEvents"]) == (0, 40)
    assert [(row["partition"], row["missing"], row["unknown"]) for row in found["partitions"]] == [(0, 0, 40)]
    assert found["bundle"]["missing"] == 0
    assert "40 events of 1 partition are unknown" in found["lastAttempt"]["message"]

    found = scanned(cluster, site, name, {"events": {**wanted, "includeUnknown": True}})
    assert (found["missingEvents"], found["unknownEvents"]) == (0, 40)
    assert found["bundle"]["missing"] == 40


def report_gap(kafka: Any, topic: str, missing: list[int]) -> None:
    """Write what the gap detector writes of a window of ten offsets."""
    value = struct.pack(">Bqq", 1, 0, 9) + BitMap(missing).serialize()
    kafka.produce(topic, [value], keys=[b"transfer:0:0"])


def scanned(cluster: Cluster, site: Site, name: str, source: dict[str, Any]) -> dict[str, Any]:
    """Apply the GapScan, or change it, and wait until a scan of it has ended; return its status."""
    body = site.gap_scan(name, source=source, engine=LOCALLY)
    cluster.apply(body)
    ended = cluster.wait_for("gapscan", name, has_ended, namespace=SCAN_NAMESPACE, timeout_seconds=180)
    status: dict[str, Any] = ended["status"]
    return status


def has_ended(found: dict[str, Any]) -> bool:
    """Whether a scan for the spec as it is now has ended, well or not."""
    last = found.get("status", {}).get("lastAttempt", {})
    return last.get("generation") == found["metadata"]["generation"] and bool(last.get("outcome"))
