"""The product's installation in tests: the chart, and a site with two Kafka clusters and a lossy one-way link.

Must not import the product: it uses helm and kubectl, as a user would.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kit.cluster import scene
from kit.cluster.places import CHECKOUT, ClusterError
from kit.kafka.compare import Comparison, compare_topics
from kit.kafka.events import fill_topic
from kit.network.link import LossyLink
from kit.peer.detector import Detector

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.peer.receiver import Receiver

RELEASE = "gapless"
OPERATOR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE = "gapless", "gapless-receiving", "gapless-sender"
POD_TEMPLATE = {"labels": {"example.com/team": "platform"}, "env": {"NO_PROXY": ".svc"}}
"""What the chart adds to pods."""
SENDER_TEMPLATE = {"labels": {"example.com/team": "links"}, "env": {"NO_PROXY": ".svc"}}
"""What the chart adds to pods among senders."""
TRUSTED = {"name": "platform-ca", "key": "ca-bundle.crt"}
"""The ConfigMap with CA certificates that a template adds."""
POD_TEMPLATES = {"batch": {"labels": {"example.com/pool": "batch"}}, "trusted": {"caBundle": TRUSTED}}
"""What an object may name besides."""
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
"""GapScans may reference it to sign their bundles."""
KAFKA, KAFKA_UP = "kafka", "kafka-up"
"""Names of the KafkaConnections of the receiving and the sending side."""
NODE_LABEL = {"gapless.dev/diode": "hall"}
IMAGES = ("operator", "spark", "sender")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Installation:
    """The chart in a cluster, with all roles: one cluster is both sides, each in its own namespace."""

    cluster: Cluster
    values: Mapping[str, Any]
    chart: Path = CHART

    @property
    def deployment(self) -> str:
        """Name of the operator's Deployment, in `OPERATOR_NAMESPACE`."""
        return f"{RELEASE}-operator"

    def upgrade(self, **more: Any) -> None:
        """Install or upgrade the chart with the values and `more`, and wait until the operator is ready."""
        values = {**self.values, **more}
        options = [f"--namespace={OPERATOR_NAMESPACE}", "--create-namespace", "--wait", "--timeout=3m"]
        # --set would need helm's quoting rules.
        settings = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        try:
            self.cluster.helm("upgrade", "--install", RELEASE, str(self.chart), *options, *settings)
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self.describe()}") from None

    def restart(self) -> None:
        """Restart the operator and wait until it is ready."""
        namespace = f"--namespace={OPERATOR_NAMESPACE}"
        self.cluster.kubectl(namespace, "rollout", "restart", f"deployment/{self.deployment}")
        self.cluster.kubectl(namespace, "rollout", "status", f"deployment/{self.deployment}", "--timeout=120s")

    def scale(self, replicas: int) -> None:
        """Scale the operator to 0 or 1 replicas, and wait."""
        namespace = f"--namespace={OPERATOR_NAMESPACE}"
        self.cluster.kubectl(namespace, "scale", f"deployment/{self.deployment}", f"--replicas={replicas}")
        self.cluster.wait_for(
            "deployment",
            self.deployment,
            lambda found: found["status"].get("readyReplicas", 0) == replicas == found["status"].get("replicas", 0),
            namespace=OPERATOR_NAMESPACE,
        )

    def logs(self) -> str:
        """Return the operator's log."""
        return self.cluster.logs(f"deployment/{self.deployment}", OPERATOR_NAMESPACE)

    def describe(self) -> str:
        """Return the operator's status, events, pods and the end of its log, for the message of a failure."""
        description = self.cluster.describe(
            self.cluster.get("deployment", self.deployment, OPERATOR_NAMESPACE), OPERATOR_NAMESPACE
        )
        with contextlib.suppress(ClusterError):
            description += "\n" + "\n".join(self.logs().splitlines()[-40:])
        return description


def installation(cluster: Cluster, image_version: str) -> Installation:
    """Return the installation for tests: preloaded images and all roles."""
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
        "podTemplate": POD_TEMPLATE,
        "podTemplates": POD_TEMPLATES,
        "sender.podTemplate": SENDER_TEMPLATE,
    }
    return Installation(cluster, values | image_tags(image_version))


def image_tags(version: str) -> dict[str, Any]:
    """Return the chart's values for images of a version."""
    return {f"images.{image}.tag": version for image in IMAGES}


def apply_without_programs(cluster: Cluster, manifests: Sequence[dict[str, Any]], namespace: str) -> None:
    """Create a namespace, and all that the chart has rendered for it but the operator and its test."""
    cluster.kubectl("create", "namespace", namespace)
    kept = [each for each in manifests if each["kind"] not in {"Deployment", "Service", "Pod"}]
    # What is in no namespace comes first: the namespaces are among it.
    kept.sort(key=lambda each: each["metadata"].get("namespace", ""))
    for where, group in itertools.groupby(kept, key=lambda each: each["metadata"].get("namespace", "")):
        cluster.apply(*group, namespace=where or namespace)


def remove(cluster: Cluster) -> None:
    """Remove an installation with its CRDs and namespaces from a cluster, if there is one."""
    if RELEASE in cluster.helm("list", "--all", "--short", f"--namespace={OPERATOR_NAMESPACE}").split():
        cluster.helm("uninstall", RELEASE, f"--namespace={OPERATOR_NAMESPACE}", "--wait", "--timeout=2m")
    existing = cluster.kubectl("get", "crd", "-o=name", "--ignore-not-found", *DEFINITIONS).split()
    if existing:
        cluster.kubectl("delete", *existing, "--timeout=90s")
    namespaces = (OPERATOR_NAMESPACE, SCAN_NAMESPACE, SENDER_NAMESPACE, ARCHIVE_NAMESPACE, MIRROR_NAMESPACE)
    cluster.kubectl("delete", "namespace", "--ignore-not-found", *namespaces, timeout_seconds=180)


@dataclass
class Site:
    """A diode with Kafka on both sides, a lossy link, and the peer's receiver and gap detector."""

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
        """Write events of all sizes to the upstream topic, and create the downstream one."""
        self.counts = fill_topic(self.kafka.upstream, self.topic, events=events, partitions=self.partitions, seed=seed)
        self.kafka.downstream.create_topic(self.topic, self.partitions)

    @property
    def expected(self) -> list[str]:
        """The expected offsets downstream, in the format of a GapScan."""
        return [f"{self.topic}:{number}:0-{count - 1}" for number, count in sorted(self.counts.items()) if count]

    def settle(self) -> None:
        """Wait until all datagrams on the link have been written to Kafka."""
        self.link.wait_idle()
        stats = self.receiver.wait_idle()
        assert stats["overflowed"] == 0, stats
        assert not stats["refused"], stats

    def compare(self) -> Comparison:
        """Compare every event with the received one, byte for byte."""
        self.settle()
        return compare_topics(self.kafka.upstream.bootstrap, self.kafka.downstream.bootstrap, self.topic)

    def datagrams(self) -> int:
        """Return the number of datagrams sent over the link so far."""
        return self.link.wait_idle().received

    # Resources of the platform team

    def connections(self) -> list[dict[str, Any]]:
        """Return the KafkaConnections of both sides, for the topics of every site."""
        received = ["transfer*", "gaps*", "internal*"]
        sides = [
            (KAFKA, SCAN_NAMESPACE, self.kafka.downstream.bootstrap, received),
            (KAFKA_UP, SENDER_NAMESPACE, self.kafka.upstream.bootstrap, ["transfer*"]),
            (KAFKA_UP, ARCHIVE_NAMESPACE, self.kafka.upstream.bootstrap, ["transfer*"]),
        ]
        return [
            body(
                "KafkaConnection",
                name,
                namespace,
                {"bootstrapServers": bootstrap, "allowedTopics": topics, "access": ["Read", "Write"]},
            )
            for name, namespace, bootstrap, topics in sides
        ]

    def archive(self, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
        """Return an Archive of its topic, in the StorageLocation `archive`."""
        defaults = {
            "kafkaRef": {"name": KAFKA_UP},
            "storageRef": {"name": "archive"},
            "folder": name,
            "region": "north",
            "topics": [self.topic],
        }
        return body("Archive", name, namespace, {**defaults, **spec})

    def restore(self, name: str, archive: str, to_topic: str, **spec: Any) -> dict[str, Any]:
        """Return a Restore of its topic to another one."""
        defaults = {
            "kafkaRef": {"name": KAFKA_UP},
            "archiveRef": {"name": archive},
            "topics": [{"name": self.topic, "toTopic": to_topic}],
        }
        return body("Restore", name, ARCHIVE_NAMESPACE, {**defaults, **spec})

    # Resources of users

    def diode(self, **spec: Any) -> dict[str, Any]:
        """Return the Diode."""
        defaults = {
            "nodeSelector": NODE_LABEL,
            "nic": self.cluster.diode.nic,
            "target": {"host": self.cluster.diode.target, "port": self.link.port},
            "requireStaticNeighbour": self.cluster.diode.one_way,
            **({} if {"budget", "profileRef"} & spec.keys() else {"unlimited": True}),
        }
        return body("Diode", self.name, SENDER_NAMESPACE, {**defaults, **spec})

    def resend(self, name: str, **spec: Any) -> dict[str, Any]:
        """Return a Resend over it."""
        defaults = {"diodeRef": {"name": self.name}, "kafkaRef": {"name": KAFKA_UP}}
        return body("Resend", name, SENDER_NAMESPACE, {**defaults, **spec})

    def gap_scan(self, name: str, **spec: Any) -> dict[str, Any]:
        """Return a GapScan whose Resend uses it."""
        defaults = {
            "kafkaRef": {"name": KAFKA},
            "engine": {"type": "Job"},
            "resend": {
                "namespace": SENDER_NAMESPACE,
                "diodeRef": {"name": self.name},
                "kafkaRef": {"name": KAFKA_UP},
            },
        }
        return body("GapScan", name, SCAN_NAMESPACE, {**defaults, **spec})

    def everything(self, name: str = "live", **spec: Any) -> dict[str, Any]:
        """Return a Resend of the entire topic, like the live sender."""
        return self.resend(name, timeRange={"topic": self.topic, "from": "1970-01-01T00:00:00Z"}, **spec)


@contextlib.contextmanager
def site(cluster: Cluster, kafka: scene.TwoSides, *, name: str = "", **receiver: Any) -> Iterator[Site]:
    """Create a site with unique names; at the end its Diode and the resources that use it are deleted.

    Args:
        cluster: where the product is installed.
        kafka: on both sides of the link.
        name: of the Diode; generated if empty.
        receiver: options as for `kit.peer.receiver.Receiver`.
    """
    number = next(_numbers)
    topic = f"transfer{number}"
    gaps = kafka.downstream.create_topic(f"gaps{number}", 3, cleanup_policy="compact")
    dedup = kafka.downstream.create_topic(f"dedup{number}", 3)
    cluster.kubectl("label", "nodes", "--all", "--overwrite", *(f"{key}={value}" for key, value in NODE_LABEL.items()))
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(scene.far_receiver(cluster, kafka.downstream.bootstrap, **receiver))
        link = LossyLink(listener.port, address=cluster.diode.target, seed=number)
        stack.callback(link.close)
        with cluster.far_side():
            link.start()
        detector = Detector(kafka.downstream.bootstrap, [topic], gap_topic=gaps, dedup_topic=dedup)
        stack.callback(detector.close)
        created = Site(cluster, kafka, listener, link, name or f"diode-{number}", topic, gaps, detector)
        stack.callback(_delete_resources, created)
        cluster.apply(*created.connections())
        yield created


def _delete_resources(created: Site) -> None:
    """Delete the Resends of a site, its Diode, and then its Archives, Restores and GapScans."""
    cluster = created.cluster
    for resend in cluster.list("resend", SENDER_NAMESPACE):
        if resend["spec"]["diodeRef"]["name"] == created.name:
            cluster.delete("resend", resend["metadata"]["name"], SENDER_NAMESPACE, wait=False)
    cluster.delete("diode", created.name, SENDER_NAMESPACE, wait=False)
    for namespace in (SENDER_NAMESPACE, ARCHIVE_NAMESPACE):
        for kind in ("archive", "restore"):
            for body in cluster.list(kind, namespace):
                if body["metadata"]["name"].startswith(created.name):
                    cluster.delete(kind, body["metadata"]["name"], namespace, wait=False)
    for scan in cluster.list("gapscan", SCAN_NAMESPACE):
        if scan["spec"].get("resend", {}).get("diodeRef", {}).get("name") == created.name:
            cluster.delete("gapscan", scan["metadata"]["name"], SCAN_NAMESPACE, wait=False)


def has_answered(found: dict[str, Any]) -> bool:
    """Whether a scan for the current spec has succeeded."""
    last = found.get("status", {}).get("lastAttempt", {})
    is_current = last.get("generation") == found["metadata"]["generation"]
    return is_current and last.get("outcome") in {"GapsFound", "NothingMissing"}


def running_pods(cluster: Cluster, namespace: str, selector: str) -> list[dict[str, Any]]:
    """Return the pods that run, and are not about to end."""
    found = cluster.list("pod", namespace, selector)
    return [
        pod for pod in found if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]


def images_of(pods: list[dict[str, Any]]) -> set[str]:
    """Return what the containers of pods run."""
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def condition_of(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    (condition,) = (each for each in status["conditions"] if each["type"] == kind)
    return condition["status"], condition["reason"]


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings, such as keys, as literal blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return an object as YAML in the style of a hand-written file."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def body(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of ours."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}
