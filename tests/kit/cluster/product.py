"""Owns the product as tests install it: the chart with its namespaces, and a site: two Kafkas, a lossy one-way link.

Must not import the product: it does with helm and kubectl what a person does.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from kit.cluster import scene
from kit.cluster.places import CHECKOUT, ClusterError
from kit.kafka.compare import Comparison, compare_topics
from kit.kafka.events import fill_topic
from kit.network.link import LossyLink
from kit.peer.detector import Detector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kit.cluster.access import Cluster
    from kit.peer.receiver import Receiver

RELEASE = "gapless"
OPERATOR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE = "gapless", "gapless-receiving", "gapless-sender"
ARCHIVE_NAMESPACE, MIRROR_NAMESPACE = "gapless-archiving", "gapless-mirroring"
CHART = CHECKOUT / "charts" / "gapless"
API_VERSION = "gapless.dev/v1alpha1"
DEFINITIONS = (
    "archives.gapless.dev",
    "diodes.gapless.dev",
    "gapscans.gapless.dev",
    "kafkaconnections.gapless.dev",
    "mirrors.gapless.dev",
    "resends.gapless.dev",
    "restores.gapless.dev",
    "storagelocations.gapless.dev",
)
SIGNING_SECRET = "bundle-signing"  # noqa: S105 -- the name of a Secret
"""Which GapScans may name to sign their bundles."""
KAFKA, KAFKA_UP = "kafka", "kafka-up"
"""Names of the KafkaConnections: of the receiving and of the sending side."""
NODE_LABEL = {"gapless.dev/diode": "hall"}
IMAGES = ("operator", "spark", "sender")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Installation:
    """The chart in a cluster, in all roles: one cluster plays both sides, each in a namespace of its own."""

    cluster: Cluster
    values: Mapping[str, Any]

    @property
    def deployment(self) -> str:
        """Of the operator, in `OPERATOR_NAMESPACE`."""
        return f"{RELEASE}-operator"

    def upgrade(self, **more: Any) -> None:
        """Install the chart, or change its values, and wait until the operator is ready; `more` is merged in."""
        values = {**self.values, **more}
        options = [f"--namespace={OPERATOR_NAMESPACE}", "--create-namespace", "--wait", "--timeout=3m"]
        # JSON is YAML; what stands on the command line would have to be quoted for helm.
        settings = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        try:
            self.cluster.helm("upgrade", "--install", RELEASE, str(CHART), *options, *settings)
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self.story()}") from None

    def restart(self) -> None:
        """Restart the operator and wait until it is ready."""
        place = f"--namespace={OPERATOR_NAMESPACE}"
        self.cluster.kubectl(place, "rollout", "restart", f"deployment/{self.deployment}")
        self.cluster.kubectl(place, "rollout", "status", f"deployment/{self.deployment}", "--timeout=120s")

    def scale(self, replicas: int) -> None:
        """Stop the operator (0) or start it (1), and wait for that."""
        place = f"--namespace={OPERATOR_NAMESPACE}"
        self.cluster.kubectl(place, "scale", f"deployment/{self.deployment}", f"--replicas={replicas}")
        self.cluster.wait_for(
            "deployment",
            self.deployment,
            lambda found: found["status"].get("readyReplicas", 0) == replicas == found["status"].get("replicas", 0),
            namespace=OPERATOR_NAMESPACE,
        )

    def logs(self) -> str:
        """The operator's log."""
        return self.cluster.logs(f"deployment/{self.deployment}", OPERATOR_NAMESPACE)

    def story(self) -> str:
        """What a person would look up about the operator."""
        told = self.cluster.story(
            self.cluster.get("deployment", self.deployment, OPERATOR_NAMESPACE), OPERATOR_NAMESPACE
        )
        with contextlib.suppress(ClusterError):
            told += "\n" + "\n".join(self.logs().splitlines()[-40:])
        return told


def installation(cluster: Cluster, image_version: str) -> Installation:
    """The chart's values for tests: images that were loaded by hand, all roles."""
    values: dict[str, Any] = {
        "roles.downstream.enabled": True,
        "roles.upstream.enabled": True,
        "roles.archive.enabled": True,
        "archive.namespaces": [ARCHIVE_NAMESPACE],
        "archive.createNamespaces": True,
        "roles.mirror.enabled": True,
        "mirror.namespaces": [MIRROR_NAMESPACE],
        "mirror.createNamespaces": True,
        "image.pullPolicy": "Never",
        "scan.namespaces": [SCAN_NAMESPACE],
        "scan.createNamespaces": True,
        "scan.signingKeySecrets": [SIGNING_SECRET],
        "sender.namespace.name": SENDER_NAMESPACE,
        "operator.logLevel": "debug",
    }
    return Installation(cluster, values | image_tags(image_version))


def image_tags(version: str) -> dict[str, Any]:
    """The chart's values for images of a version."""
    return {f"images.{image}.tag": version for image in IMAGES}


def remove(cluster: Cluster) -> None:
    """Take every trace of an installation out of a cluster; nothing is there is fine, too."""
    if RELEASE in cluster.helm("list", "--all", "--short", f"--namespace={OPERATOR_NAMESPACE}").split():
        cluster.helm("uninstall", RELEASE, f"--namespace={OPERATOR_NAMESPACE}", "--wait", "--timeout=2m")
    there = cluster.kubectl("get", "crd", "-o=name", "--ignore-not-found", *DEFINITIONS).split()
    if there:
        cluster.kubectl("delete", *there, "--timeout=90s")
    places = (OPERATOR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE, ARCHIVE_NAMESPACE, MIRROR_NAMESPACE)
    cluster.kubectl("delete", "namespace", "--ignore-not-found", *places, timeout_seconds=180)


@dataclass
class Site:
    """A diode with Kafka on both sides, a link that loses datagrams, and the peer's receiver and gap detector."""

    cluster: Cluster
    kafka: scene.TwoSides
    receiver: Receiver
    link: LossyLink
    name: str
    """Of the Diode."""
    topic: str
    gap_topic: str
    detector: Detector
    partitions: int = 4
    counts: dict[int, int] = field(default_factory=dict)
    """Events of each upstream partition."""

    def fill(self, events: int, *, seed: int = 1) -> None:
        """Write events of all sizes to the upstream topic, and make the downstream one."""
        self.counts = fill_topic(self.kafka.upstream, self.topic, events=events, partitions=self.partitions, seed=seed)
        self.kafka.downstream.create_topic(self.topic, self.partitions)

    @property
    def expected(self) -> list[str]:
        """What should be downstream, as a GapScan is told."""
        return [f"{self.topic}:{number}:0-{count - 1}" for number, count in sorted(self.counts.items()) if count]

    def settle(self) -> None:
        """Wait until all that is on the link has been written to Kafka."""
        self.link.wait_idle()
        stats = self.receiver.wait_idle()
        assert stats["overflowed"] == 0, stats
        assert not stats["refused"], stats

    def compare(self) -> Comparison:
        """Compare every event with what arrived, byte for byte."""
        self.settle()
        return compare_topics(self.kafka.upstream.bootstrap, self.kafka.downstream.bootstrap, self.topic)

    def datagrams(self) -> int:
        """How many datagrams were sent over the link so far."""
        return self.link.wait_idle().received

    # What the platform team writes

    def connections(self) -> list[dict[str, Any]]:
        """The KafkaConnections of both sides, for the topics of every site."""
        received = ["transfer*", "gaps*", "internal*"]
        sides = [
            (KAFKA, SCAN_NAMESPACE, self.kafka.downstream.bootstrap, received),
            (KAFKA_UP, SENDER_NAMESPACE, self.kafka.upstream.bootstrap, ["transfer*"]),
            (KAFKA_UP, ARCHIVE_NAMESPACE, self.kafka.upstream.bootstrap, ["transfer*"]),
        ]
        return [
            _body(
                "KafkaConnection",
                name,
                namespace,
                {"bootstrapServers": bootstrap, "allowedTopics": topics, "access": ["Read", "Write"]},
            )
            for name, namespace, bootstrap, topics in sides
        ]

    def archive(self, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
        """An Archive of its topic, in the StorageLocation `archive`."""
        wanted = {
            "kafkaRef": {"name": KAFKA_UP},
            "storageRef": {"name": "archive"},
            "folder": name,
            "region": "north",
            "topics": [self.topic],
        }
        return _body("Archive", name, namespace, {**wanted, **spec})

    def restore(self, name: str, archive: str, to_topic: str, **spec: Any) -> dict[str, Any]:
        """A Restore of its topic to another one."""
        wanted = {
            "kafkaRef": {"name": KAFKA_UP},
            "archiveRef": {"name": archive},
            "topics": [{"name": self.topic, "toTopic": to_topic}],
        }
        return _body("Restore", name, ARCHIVE_NAMESPACE, {**wanted, **spec})

    # What a person writes

    def diode(self, **spec: Any) -> dict[str, Any]:
        """The Diode."""
        wanted = {
            "nodeSelector": NODE_LABEL,
            "nic": self.cluster.diode.nic,
            "target": {"host": self.cluster.diode.target, "port": self.link.port},
            "requireStaticNeighbour": self.cluster.diode.one_way,
        }
        return _body("Diode", self.name, SENDER_NAMESPACE, {**wanted, **spec})

    def resend(self, name: str, **spec: Any) -> dict[str, Any]:
        """A Resend over it."""
        wanted = {"diodeRef": {"name": self.name}, "kafkaRef": {"name": KAFKA_UP}}
        return _body("Resend", name, SENDER_NAMESPACE, {**wanted, **spec})

    def gap_scan(self, name: str, **spec: Any) -> dict[str, Any]:
        """A GapScan whose Resend goes over it."""
        wanted = {
            "kafkaRef": {"name": KAFKA},
            "engine": {"type": "Job"},
            "resend": {
                "namespace": SENDER_NAMESPACE,
                "diodeRef": {"name": self.name},
                "kafkaRef": {"name": KAFKA_UP},
            },
        }
        return _body("GapScan", name, SCAN_NAMESPACE, {**wanted, **spec})

    def everything(self, name: str = "live", **spec: Any) -> dict[str, Any]:
        """A Resend of the whole topic: what the live sender sends, once."""
        return self.resend(name, timeRange={"topic": self.topic, "from": "1970-01-01T00:00:00Z"}, **spec)


@contextlib.contextmanager
def site(cluster: Cluster, kafka: scene.TwoSides, *, name: str = "", **receiver: Any) -> Iterator[Site]:
    """Make a site with names that no other has; its Diode, and what was sent over it, goes with it.

    Args:
        cluster: where the product is installed.
        kafka: on both sides of the link.
        name: of the Diode; made up when empty.
        receiver: options as for `kit.peer.receiver.Receiver`.
    """
    number = next(_numbers)
    topic = f"transfer{number}"
    gaps = kafka.downstream.create_topic(f"gaps{number}", 3, cleanup_policy="compact")
    dedup = kafka.downstream.create_topic(f"dedup{number}", 3)
    cluster.kubectl("label", "nodes", "--all", "--overwrite", *(f"{key}={value}" for key, value in NODE_LABEL.items()))
    with contextlib.ExitStack() as running:
        listener = running.enter_context(scene.far_receiver(cluster, kafka.downstream.bootstrap, **receiver))
        link = LossyLink(listener.port, address=cluster.diode.target, seed=number)
        running.callback(link.close)
        with cluster.far_side():
            link.start()
        detector = Detector(kafka.downstream.bootstrap, [topic], gap_topic=gaps, dedup_topic=dedup)
        running.callback(detector.close)
        made = Site(cluster, kafka, listener, link, name or f"diode-{number}", topic, gaps, detector)
        running.callback(_clear, made)
        cluster.apply(*made.connections())
        yield made


def _clear(made: Site) -> None:
    """Delete the Resends of a site, then its Diode; what is left of them goes with them."""
    cluster = made.cluster
    for resend in cluster.list("resend", SENDER_NAMESPACE):
        if resend["spec"]["diodeRef"]["name"] == made.name:
            cluster.delete("resend", resend["metadata"]["name"], SENDER_NAMESPACE, wait=False)
    cluster.delete("diode", made.name, SENDER_NAMESPACE, wait=False)
    for namespace in (SENDER_NAMESPACE, ARCHIVE_NAMESPACE):
        for kind in ("archive", "restore"):
            for each in cluster.list(kind, namespace):
                if each["metadata"]["name"].startswith(made.name):
                    cluster.delete(kind, each["metadata"]["name"], namespace, wait=False)
    for scan in cluster.list("gapscan", SCAN_NAMESPACE):
        if scan["spec"].get("resend", {}).get("diodeRef", {}).get("name") == made.name:
            cluster.delete("gapscan", scan["metadata"]["name"], SCAN_NAMESPACE, wait=False)


def has_answered(found: dict[str, Any]) -> bool:
    """Whether a scan for the spec as it is now has ended well."""
    last = found.get("status", {}).get("lastAttempt", {})
    is_new = last.get("generation") == found["metadata"]["generation"]
    return is_new and last.get("outcome") in {"GapsFound", "NothingMissing"}


def said(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    (found,) = (condition for condition in status["conditions"] if condition["type"] == kind)
    return found["status"], found["reason"]


class _Written(yaml.SafeDumper):
    """Writes texts of several lines, such as keys, line by line."""


_Written.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def as_yaml(document: Mapping[str, Any]) -> str:
    """Write an object as a person would."""
    return yaml.dump(dict(document), Dumper=_Written, sort_keys=False, allow_unicode=True)


def _body(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}
