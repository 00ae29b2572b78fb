"""What a user of one namespace tries in order to get what was not given, and the sentence with which each is refused.

The user has the role gapless-edit in the senders' and the scans' namespace. Where a bare pod is tried, the user even
has the built-in role edit there, because with gapless-edit alone it is the API server's RBAC that refuses.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.v1alpha1.diode import Diode
from gapless_operator.common.settings import Program
from gapless_operator.sending.sender_pods import container, pod_spec
from kit.cluster import product
from kit.cluster.places import ClusterError
from kit.cluster.product import API_VERSION, RELEASE, SCAN_NAMESPACE, SENDER_NAMESPACE, Installation, Site, condition_of
from kit.signing import KeyPair, key_pair

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.cluster.scene import TwoSides

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

USER, EDITOR = "mallory", "mallory-with-edit"
SENDER_IMAGE = "gapless/sender:dev"
EVENTS = 400


@dataclass(frozen=True)
class Target:
    """A site whose platform team has opened one topic and trusts one signer, and a user who wants more."""

    cluster: Cluster
    site: Site
    keys: KeyPair
    connection: str
    """Name of the KafkaConnection that opens the site's topic alone."""

    def try_to(self, verb: str, body: dict[str, Any], *, user: str = USER) -> None:
        """Ask the API server as the user; nothing comes of it but an answer."""
        who = [f"--as={user}"] if user else []  # else the administrator of the cluster
        options = ("--dry-run=server", "--validate=false", "-o=name", "-f=-")
        self.cluster.kubectl(verb, *options, *who, stdin=json.dumps(body))

    def refusal(self, body: dict[str, Any], *, user: str = USER) -> str:
        """The sentence with which the API server refuses to create an object."""
        with pytest.raises(ClusterError) as refused:
            self.try_to("create", body, user=user)
        return str(refused.value)

    def resend(self, name: str, **spec: Any) -> dict[str, Any]:
        whole = self.site.resend(f"{self.site.name}-{name}", **{"kafkaRef": {"name": self.connection}, **spec})
        return {**whole, "spec": {key: value for key, value in whole["spec"].items() if value is not None}}

    def apply(self, body: dict[str, Any]) -> None:
        """Create an object as the user."""
        self.cluster.kubectl("create", f"--as={USER}", "-f=-", stdin=json.dumps(body))

    def stalled(self, name: str) -> tuple[str, str]:
        """Wait until a Resend is given up; reason and sentence."""
        whole = f"{self.site.name}-{name}"
        found = self.cluster.wait_for("resend", whole, "Stalled", namespace=SENDER_NAMESPACE, timeout_seconds=60)
        (condition,) = (each for each in found["status"]["conditions"] if each["type"] == "Stalled")
        return condition["reason"], condition["message"]

    def pods(self, name: str) -> list[dict[str, Any]]:
        return self.cluster.list("pod", SENDER_NAMESPACE, f"gapless.dev/name={self.site.name}-{name}")


@pytest.fixture(scope="module")
def target(
    installed: Installation, cluster_kafka: TwoSides, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """One site for all: most of what is tried is refused, and the Resends have names of their own."""
    with product.site(installed.cluster, cluster_kafka) as site:
        yield from attacked(site, key_pair(tmp_path_factory.mktemp("keys")))


def attacked(site: Site, keys: KeyPair) -> Iterator[Target]:
    """Give the user its roles and the site its signer."""
    cluster = site.cluster
    site.fill(EVENTS)
    made = Target(cluster, site, keys, f"{site.name}-kafka")
    connection = {"bootstrapServers": site.kafka.upstream.bootstrap, "allowedTopics": [site.topic]}
    cluster.apply(ours("KafkaConnection", made.connection, connection))
    signer = {"name": "receiving-side", "publicKey": keys.public.read_text()}
    cluster.apply(site.diode(trustedKeys=[signer], partitionWindow={"start": 0, "count": site.partitions}))
    bindings = [
        (USER, f"{RELEASE}-edit", SENDER_NAMESPACE),
        (USER, f"{RELEASE}-edit", SCAN_NAMESPACE),
        (EDITOR, "edit", SENDER_NAMESPACE),
    ]
    for user, role, namespace in bindings:
        options = (f"--clusterrole={role}", f"--user={user}", f"--namespace={namespace}")
        cluster.kubectl("create", "rolebinding", f"{user}-{site.name}", *options)
    cluster.wait_for("diode", site.name, "Ready", namespace=SENDER_NAMESPACE)
    yield made
    for user, _, namespace in bindings:
        cluster.delete("rolebinding", f"{user}-{site.name}", namespace, wait=False)
    cluster.delete("kafkaconnection", made.connection, SENDER_NAMESPACE, wait=False)


def ours(kind: str, name: str, spec: dict[str, Any], *, namespace: str = SENDER_NAMESPACE) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def bundle_of(topic: str, folder: Path, *, signing_key: Path | None = None) -> str:
    """A bundle that asks for the first ten events of partition 0."""
    file = folder / f"bundle-of-{topic}.json"
    gaps = PartitionGaps(topic, 0, 0, 99, OffsetRanges([(0, 9)]))
    created = datetime(2026, 11, 20, tzinfo=UTC)
    write_bundle(file, BundleKind.ALL, [gaps], created=created, source={}, signing_key=signing_key)
    return file.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------- Secrets, topics, brokers


def test_a_foreign_secret_is_out_of_reach(target: Target) -> None:
    kafka = {"bootstrapServers": "kafka:9092", "sasl": {"username": "x", "passwordSecret": {"name": "any", "key": "y"}}}
    offsets = {"topic": target.site.topic, "partition": 0, "from": 0, "to": 9}
    said_ = target.refusal(target.resend("secret", offsets=offsets, kafkaRef=None, kafka=kafka))
    assert "spec.kafkaRef: Required value" in said_
    with_secret = ours("KafkaConnection", "mine", {**kafka, "allowedTopics": ["*"]})
    assert 'cannot create resource "kafkaconnections"' in target.refusal(with_secret)
    scan = target.site.gap_scan("mine", source={"gapTopic": {"topic": target.site.gap_topic}})
    scan["spec"]["signingKeySecret"] = {"name": "any"}
    assert "spec.signingKeySecret names any, which the platform team has not listed" in target.refusal(scan)


def test_a_foreign_topic_is_refused_by_the_api_server_and_in_a_signed_bundle_by_the_operator(
    target: Target, tmp_path: Path
) -> None:
    offsets = {"topic": "salaries", "partition": 0, "from": 0, "to": 9}
    said_ = target.refusal(target.resend("topic", offsets=offsets))
    assert f"The KafkaConnection {target.connection} does not allow the topic salaries" in said_
    text = bundle_of("salaries", tmp_path, signing_key=target.keys.private)
    target.apply(target.resend("topic", bundle={"inline": text}))
    reason, sentence = target.stalled("topic")
    assert reason == "BadConfiguration"
    assert "requests the topic salaries" in sentence
    assert not target.pods("topic")


def test_foreign_brokers_are_refused(target: Target) -> None:
    offsets = {"topic": target.site.topic, "partition": 0, "from": 0, "to": 9}
    kafka = {"bootstrapServers": "kafka.of.mallory:9092"}
    said_ = target.refusal(target.resend("brokers", offsets=offsets, kafkaRef=None, kafka=kafka))
    assert "spec.kafkaRef: Required value" in said_
    change = ("patch", "kafkaconnection", target.connection, f"--namespace={SENDER_NAMESPACE}", "--type=merge")
    with pytest.raises(ClusterError, match=r'cannot (get|patch) resource "kafkaconnections"'):
        target.cluster.kubectl(*change, f"-p={json.dumps({'spec': kafka})}", f"--as={USER}")


def test_a_loopback_endpoint_is_refused_even_from_the_platform_team(target: Target) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]", "169.254.169.254"):
        wanted = ours("KafkaConnection", "mine", {"bootstrapServers": f"{host}:9092", "allowedTopics": ["*"]})
        assert 'cannot create resource "kafkaconnections"' in target.refusal(wanted)
        with pytest.raises(ClusterError, match="loopback, link-local and metadata addresses are refused"):
            target.cluster.kubectl("create", "--dry-run=server", "-o=name", "-f=-", stdin=json.dumps(wanted))


# -------------------------------------------------------------------------------------------- windows and bundles


def test_a_window_of_another_cluster_is_refused(target: Target) -> None:
    offsets = {"topic": target.site.topic, "partition": 8, "from": 0, "to": 9}
    wanted = target.resend("window", offsets=offsets, partitionWindow={"start": 8, "count": 4})
    deadline = time.monotonic() + 30
    while True:  # a Diode is a parameter of the policy a moment after it was written
        try:
            target.try_to("create", wanted)
        except ClusterError as error:
            refused = str(error)
            break
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert f"spec.partitionWindow (start 8, count 4) is none of those that Diode {target.site.name} allows" in refused
    change = json.dumps({"spec": {"limits": {"partitionWindows": [{"start": 8, "count": 4}]}}})
    options = (f"--namespace={SENDER_NAMESPACE}", "--type=merge", f"-p={change}", f"--as={USER}")
    with pytest.raises(ClusterError, match=r'cannot (get|patch) resource "diodes"'):
        target.cluster.kubectl("patch", "diode", target.site.name, *options)


def test_an_unsigned_bundle_and_one_of_another_signer_are_refused_and_no_pod_starts(
    target: Target, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    foreign = key_pair(tmp_path / "foreign")
    before = target.site.datagrams()
    for name, key, sentence in (
        ("unsigned", None, "The bundle spec.bundle.inline is not signed; sign it where it was created"),
        ("foreign", foreign.private, "matches none of the trusted keys (receiving-side)"),
    ):
        target.apply(target.resend(name, bundle={"inline": bundle_of(target.site.topic, tmp_path, signing_key=key)}))
        reason, message = target.stalled(name)
        assert reason == "BadBundle"
        assert sentence in message
        assert not target.pods(name)
    assert target.site.datagrams() == before


def test_a_replayed_bundle_is_not_sent_again(target: Target, tmp_path: Path) -> None:
    text = bundle_of(target.site.topic, tmp_path, signing_key=target.keys.private)
    target.apply(target.resend("first", bundle={"inline": text}))
    whole = f"{target.site.name}-first"
    done = target.cluster.wait_for("resend", whole, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=120)
    assert done["status"]["progress"]["sent"] == 10
    sent = target.site.datagrams()
    assert sent
    target.apply(target.resend("replayed", bundle={"inline": text}))
    again = target.cluster.wait_for(
        "resend", f"{target.site.name}-replayed", "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=60
    )
    assert condition_of(again["status"], "Ready") == ("True", "AlreadySent")
    (ready,) = (each for each in again["status"]["conditions"] if each["type"] == "Ready")
    assert f"The same events were sent by Resend {whole}" in ready["message"]
    assert target.site.datagrams() == sent
    assert not target.pods("replayed")


# ---------------------------------------------------------------------------------------------------------- pods


def sender_pod(target: Target) -> dict[str, Any]:
    """A pod as the operator makes them, so that only what a test changes is wrong with it."""
    diode = Diode.from_resource(target.site.diode()).spec
    program = Program(image=SENDER_IMAGE, service_account="gapless-sender")
    one = container(diode, program, name="send", arguments=["resend"])
    made = pod_spec(diode, program, containers=[one], init_containers=[{**copy.deepcopy(one), "name": "fetch"}])
    metadata = {"name": "mine", "namespace": SENDER_NAMESPACE, "labels": {"gapless.dev/diode": target.site.name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


TOKEN = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
PODS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "root container": (
        lambda spec: spec["containers"][0]["securityContext"].update(runAsUser=0),
        "No container of a sender pod may run as root",
    ),
    "root init container": (
        lambda spec: spec["initContainers"][0]["securityContext"].update(runAsUser=0),
        "No container of a sender pod may run as root",
    ),
    "host path": (
        lambda spec: spec["volumes"].append({"name": "root", "hostPath": {"path": "/"}}),
        "Sender pods may use the node's network, but not its processes, memory or files",
    ),
    "other node": (
        lambda spec: spec.update(nodeName="another-node"),
        "Sender pods go to the node of a Diode;",
    ),
    "API token": (lambda spec: spec["volumes"].append(TOKEN), "service account tokens and all other types are refused"),
    "automatic API token": (
        lambda spec: spec.update(automountServiceAccountToken=True),
        "service account tokens and all other types are refused",  # Kubernetes adds one as a projected volume
    ),
    "image": (
        lambda spec: spec["containers"][0].update(image="image.of/mallory:1"),
        "Sender pods may not run the image image.of/mallory:1;",
    ),
    "nothing else": (lambda _spec: None, "Pods in the senders' namespace are started by Jobs of the operator only"),
}


def test_no_pod_of_a_user_gets_the_nodes_network_and_anything_beside_it(target: Target) -> None:
    for what, (change, sentence) in PODS.items():
        pod = sender_pod(target)
        change(pod["spec"])
        assert sentence in target.refusal(pod, user=EDITOR), what
        assert 'cannot create resource "pods"' in target.refusal(pod), what


def test_a_pod_goes_to_no_other_node_than_that_of_its_diode_whoever_asks(target: Target) -> None:
    pod = sender_pod(target)
    pod["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    assert f"Pods of Diode {target.site.name} go to its node" in target.refusal(pod, user="")


def test_what_the_operator_wrote_is_not_changed_by_a_user(target: Target) -> None:
    """An attack on the way: the settings of a sender, or the ledger, in a ConfigMap of the operator."""
    forged = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gapless-ledger-forged",
            "namespace": SENDER_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "gapless-operator"},
        },
    }
    refusal = target.refusal(forged, user=EDITOR)
    assert "can only be written and deleted by the operator and the platform team" in refusal


def test_a_scan_runs_neither_an_image_nor_an_account_of_the_user(target: Target) -> None:
    for engine, field in (
        ({"type": "Job", "image": "image.of/mallory:1"}, "engine.image names image.of/mallory:1"),
        ({"type": "Job", "serviceAccountName": "default"}, "engine.serviceAccountName names default"),
    ):
        source = {"gapTopic": {"topic": target.site.gap_topic}}
        refused = target.refusal(target.site.gap_scan("mine", source=source, engine=engine))
        assert f"spec.{field}, which the platform team has not listed" in refused
