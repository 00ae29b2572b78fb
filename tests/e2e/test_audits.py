"""Audits of a GapScan on the test cluster: what an inventory says should be there, and what a state remembers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.wire.result_lines import find_result
from kit.cluster.locations import volume
from kit.cluster.product import SCAN_NAMESPACE, SENDER_NAMESPACE, Site, condition_of
from kit.signing import key_pair
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

pytestmark = pytest.mark.timeout(600)
SILENT = 3
"""The partition of which nothing arrives at first."""


def test_a_signed_inventory_shows_a_silent_partition_and_a_state_has_the_next_audit_read_only_what_is_new(
    cluster: Cluster, make_site: SiteFactory, cluster_kafka: TwoSides, tmp_path: Path
) -> None:
    internal = cluster_kafka.downstream.create_topic("internal-of-audits")
    site = make_site(internal_topic=internal)
    site.fill(6000)
    cluster.apply(site.diode())
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    site.link.change(drop=0.05)
    sent(cluster, site.everything(f"{site.name}-live", partitionWindow={"start": 0, "count": SILENT}))
    site.link.change(drop=0.0)
    keys = key_pair(tmp_path)
    announce(site, keys.private)
    volume(cluster, "audits", SCAN_NAMESPACE)
    for name in ("upstream-key", "foreign-key"):
        # Whose key it is makes the difference: the foreign one has signed nothing.
        folder = tmp_path / name
        folder.mkdir()
        public = keys.public if name == "upstream-key" else key_pair(folder).public
        cluster.kubectl("create", "configmap", name, f"--from-file=public.pem={public}", f"-n={SCAN_NAMESPACE}")

    lost = site.compare().missing
    assert lost > site.counts[SILENT] > 0
    scan = f"{site.name}-audit"
    found = audited(cluster, scan, site, wanted(site, internal, "upstream-key"))
    assert found["lastAttempt"]["outcome"] == "GapsFound", found
    assert found["missingEvents"] == lost
    silent = next(each for each in found["partitions"] if each["partition"] == SILENT)
    assert silent["missing"] == site.counts[SILENT]
    # Of a partition of which nothing has arrived, nobody knows when.
    assert {"after", "before"}.isdisjoint(found["lost"])
    assert 0 < sum(hour["missing"] for hour in found["lost"]["hours"]) <= lost - site.counts[SILENT]
    assert records_read(cluster, found) == 6000 - lost

    sent(cluster, found["resendManifest"])
    assert site.compare().complete
    found = audited(cluster, scan, site, wanted(site, internal, "upstream-key"), copies=2)
    assert (found["lastAttempt"]["outcome"], found["missingEvents"]) == ("NothingMissing", 0)
    assert condition_of(found, "GapsClosed") == ("True", "AllClosed")
    assert "lost" not in found
    assert records_read(cluster, found) == lost, "the state has the others"
    assert found["readBy"] == "spark", "also where a state continues"

    refused = audited(cluster, scan, site, wanted(site, internal, "foreign-key"))
    assert refused["lastAttempt"]["outcome"] == "BadConfiguration"
    assert "inventory" in refused["lastAttempt"]["message"]
    assert refused["missingEvents"] == 0, "the last answer stays"


def announce(site: Site, signing_key: Path) -> None:
    """Send a signed inventory of what is upstream over the link."""
    settings = {
        "bootstrap-servers": site.kafka.upstream.bootstrap,
        "topics": site.topic,
        "signing-key": signing_key,
        "target-ip": site.cluster.diode.target,
        "target-port": site.link.port,
    }
    command = [PROGRAM, "inventory", *(f"--{name}={value}" for name, value in settings.items())]
    subprocess.run(command, check=True, timeout=60)
    site.settle()


def wanted(site: Site, internal: str, key: str) -> dict[str, Any]:
    """The source of the GapScan."""
    inventory = {"topic": internal, "expectTopics": [site.topic], "verifyKey": {"configMap": {"name": key}}}
    state = {"storageRef": {"name": "audits"}, "folder": site.topic}
    return {"events": {"topics": [site.topic], "manifest": inventory, "state": state}}


def sent(cluster: Cluster, resend: Any) -> None:
    """Apply a Resend, an object or its YAML, and wait until it has succeeded."""
    there = {each["metadata"]["name"] for each in cluster.list("resend", SENDER_NAMESPACE)}
    cluster.apply(resend, server_side=isinstance(resend, str))
    (name,) = {each["metadata"]["name"] for each in cluster.list("resend", SENDER_NAMESPACE)} - there
    cluster.wait_for("resend", name, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)


def audited(cluster: Cluster, name: str, site: Site, source: dict[str, Any], *, copies: int = 1) -> dict[str, Any]:
    """Apply the GapScan, or change it, and wait until a scan of it has ended; return its status."""
    body = site.gap_scan(name, source=source)
    body["spec"]["resend"]["copies"] = copies
    cluster.apply(body)
    ended = cluster.wait_for("gapscan", name, has_ended, namespace=SCAN_NAMESPACE, timeout_seconds=180)
    status: dict[str, Any] = ended["status"]
    return status


def has_ended(found: dict[str, Any]) -> bool:
    """Whether a scan for the spec as it is now has ended, well or not."""
    last = found.get("status", {}).get("lastAttempt", {})
    return last.get("generation") == found["metadata"]["generation"] and bool(last.get("outcome"))


def records_read(cluster: Cluster, status: dict[str, Any]) -> int:
    """How many records the last scan read, as its log says."""
    log = cluster.logs(f"job/{status['lastAttempt']['name']}", SCAN_NAMESPACE)
    read: int = find_result(log.splitlines()).report.details["state"]["records_new"]
    return read
