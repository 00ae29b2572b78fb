"""Objects of every kind stay at work through an upgrade from another release, and back to it.

It needs the sources of that release, and its images in the cluster: `make test-upgrade FROM=v0.1.0`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kit.cluster import product
from kit.cluster.locations import volume
from kit.cluster.product import (
    ARCHIVE_NAMESPACE,
    KAFKA_UP,
    MIRROR_NAMESPACE,
    OPERATOR_NAMESPACE,
    SCAN_NAMESPACE,
    SENDER_NAMESPACE,
    Installation,
    Site,
    body,
    condition_of,
    images_of,
    running_pods,
)

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

OTHER = os.environ.get("GAPLESS_OTHER_RELEASE", "")
"""The folder with the sources of the other release; its images have the tag `TAG`."""
TAG = "other"
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not OTHER, reason="it needs the images of another release: make test-upgrade FROM=v0.1.0"),
]
SMALL = {"cores": 1, "cpu": "200m", "memory": "512Mi"}
AS_JOB = {"type": "Job", "reader": "Local", "driver": SMALL}
SOURCE, TARGET = "north", "hall"
EVENTS, BATCH = 4000, 200


@pytest.fixture
def releases(cluster: Cluster) -> Iterator[tuple[Installation, Installation]]:
    """The installation of this release and that of the other one, which is installed; nothing is left at the end."""
    own = product.installation(cluster, "dev")
    chart = Path(OTHER) / "charts" / "gapless"
    known = yaml.safe_load((chart / "values.yaml").read_text())
    values = {name: value for name, value in own.values.items() if name.split(".")[0] in known}
    other = Installation(cluster, values | product.image_tags(TAG), chart)
    product.remove(cluster)
    other.upgrade()
    yield own, other
    product.remove(cluster)


def test_every_kind_stays_at_work_through_an_upgrade_and_back(
    releases: tuple[Installation, Installation], cluster_kafka: TwoSides
) -> None:
    own, other = releases
    with product.site(own.cluster, cluster_kafka) as site:
        work = Work(site)
        work.begin()
        work.goes_on(TAG)
        own.upgrade()
        work.goes_on("dev")
        other.upgrade()
        work.goes_on(TAG)
        work.ends()


class Work:
    """One object of each kind, and what it has to do."""

    def __init__(self, site: Site) -> None:
        self.site, self.cluster, self.written = site, site.cluster, 0
        self.copied = f"{site.topic}-copied"
        self.objects = {
            "mirror": (MIRROR_NAMESPACE, "copy"),
            "archive": (ARCHIVE_NAMESPACE, f"{site.name}-kept"),
            "restore": (ARCHIVE_NAMESPACE, f"{site.name}-back"),
            "gapscan": (SCAN_NAMESPACE, f"{site.name}-audit"),
            "resend": (SENDER_NAMESPACE, f"{site.name}-live"),
            "diode": (SENDER_NAMESPACE, site.name),
        }
        self.attempts = dict.fromkeys(self.objects, "")

    def begin(self) -> None:
        """Create the objects: a Resend that sends for minutes, copies that go on, and a scan each minute."""
        site, cluster = self.site, self.cluster
        site.fill(EVENTS)
        site.kafka.upstream.create_topic(self.copied, 1)
        both = ["Read", "Write"]
        for name, bootstrap in ((SOURCE, site.kafka.upstream.bootstrap), (TARGET, site.kafka.downstream.bootstrap)):
            open_to = {"bootstrapServers": bootstrap, "allowedTopics": [self.copied], "access": both}
            cluster.apply(body("KafkaConnection", name, MIRROR_NAMESPACE, open_to))
        volume(cluster, "archive", ARCHIVE_NAMESPACE)
        cluster.apply(site.diode())
        cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
        archive, restored = self.objects["archive"][1], f"{self.copied}-back"
        mirror = {
            "sourceRef": {"name": SOURCE},
            "targetRef": {"name": TARGET},
            "topics": [self.copied],
            "workers": {"count": 1, "cpu": "100m", "memory": "256Mi"},
        }
        source = {"events": {"topics": [site.topic], "expect": site.expected}}
        back = {
            "kafkaRef": {"name": KAFKA_UP},
            "archiveRef": {"name": archive},
            "topics": [{"name": self.copied, "toTopic": restored}],
            "mode": "Follow",
            "engine": AS_JOB,
        }
        kept = site.archive(
            archive, ARCHIVE_NAMESPACE, engine=AS_JOB, topics=[self.copied], segments={"maxAgeSeconds": 1}
        )
        cluster.apply(kept)
        self.write()  # a Restore of an earlier release needs an archive that has its topic
        self.until("archive", lambda status: status.get("records") == self.written)
        cluster.apply(
            body("Mirror", "copy", MIRROR_NAMESPACE, mirror),
            body("Restore", self.objects["restore"][1], ARCHIVE_NAMESPACE, back),
            site.everything(self.objects["resend"][1], eps=10),
            site.gap_scan(self.objects["gapscan"][1], source=source, engine=AS_JOB, schedule={"cron": "* * * * *"}),
        )

    def goes_on(self, tag: str) -> None:
        """Wait until each object works in the images of a release, and has done what came meanwhile."""
        (operator,) = running_pods(self.cluster, OPERATOR_NAMESPACE, "app.kubernetes.io/component=operator")
        assert images_of([operator]) == {f"gapless/operator:{tag}"}
        self.write()
        self.until("mirror", lambda status: self.is_at_work("mirror", tag) and status.get("lagRecords") == 0)
        self.until("archive", lambda status: self.is_at_work("archive", tag) and status.get("records") == self.written)
        self.until("restore", lambda status: status.get("progress", {}).get("restored") == self.written)
        assert self.is_at_work("restore", tag)
        before = self.status("gapscan").get("lastAttempt", {}).get("name")
        self.until(
            "gapscan",
            lambda status: (
                (last := status.get("lastAttempt", {})).get("name") != before
                and last.get("outcome") in {"GapsFound", "NothingMissing"}
            ),
        )
        sent = self.status("resend").get("progress", {}).get("sent", 0)
        self.until("resend", lambda status: status.get("progress", {}).get("sent", 0) > sent)
        (sender,) = running_pods(self.cluster, SENDER_NAMESPACE, f"gapless.dev/name={self.objects['resend'][1]}")
        self.attempts["resend"] = self.attempts["resend"] or sender["metadata"]["uid"]
        assert sender["metadata"]["uid"] == self.attempts["resend"], "an upgrade does not begin again to send"
        for kind in self.objects:
            conditions = {each["type"]: each for each in self.status(kind).get("conditions", [])}
            assert conditions.get("Stalled", {}).get("status", "False") == "False", (kind, conditions)

    def write(self) -> None:
        """Write records that none of the others is like."""
        values = [f"value-{number}".encode() for number in range(self.written, self.written + BATCH)]
        self.site.kafka.upstream.produce(self.copied, values)
        self.written += BATCH

    def ends(self) -> None:
        """Let the Resend end, and compare everything byte for byte."""
        cluster, site = self.cluster, self.site
        namespace, name = self.objects["resend"]
        cluster.kubectl("patch", "resend", name, f"-n={namespace}", "--type=merge", '-p={"spec": {"eps": 2000}}')
        done = cluster.wait_for("resend", name, "Succeeded", namespace=namespace, timeout_seconds=300)["status"]
        assert (condition_of(done, "Succeeded")[0], done["progress"]["sent"]) == ("True", EVENTS)
        assert site.compare().complete
        wanted = [f"value-{number}".encode() for number in range(self.written)]
        for kafka, topic in (
            (site.kafka.upstream, self.copied),
            (site.kafka.downstream, self.copied),
            (site.kafka.upstream, f"{self.copied}-back"),
        ):
            assert [message.value() for message in kafka.read(topic)] == wanted
        for kind in ("mirror", "archive", "restore", "gapscan"):
            namespace, name = self.objects[kind]
            cluster.delete(kind, name, namespace, wait=False)

    def is_at_work(self, kind: str, tag: str) -> bool:
        """Whether the pods of a kind run, in the images of a release."""
        namespace, name = self.objects[kind]
        program = "sender" if kind == "mirror" else "spark"
        pods = running_pods(self.cluster, namespace, f"gapless.dev/name={name}")
        return images_of(pods) == {f"gapless/{program}:{tag}"}

    def status(self, kind: str) -> dict[str, Any]:
        namespace, name = self.objects[kind]
        found: dict[str, Any] = (self.cluster.get(kind, name, namespace) or {}).get("status", {})
        return found

    def until(self, kind: str, done: Callable[[dict[str, Any]], bool]) -> None:
        namespace, name = self.objects[kind]
        self.cluster.wait_for(
            kind, name, lambda found: done(found.get("status", {})), namespace=namespace, timeout_seconds=300
        )
