"""Proves the ground on which the other end-to-end tests stand: the cluster, the link, Kafka, the images."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kit.cluster import scene
from kit.cluster.access import Cluster, OwnNode
from kit.cluster.base_images import BUSYBOX_IMAGE

if TYPE_CHECKING:
    from conftest import NamespaceFactory, ReceiverFactory

SENDER = "gapless/sender:dev"
OPERATOR = "gapless/operator:dev"
SPARK = "gapless/spark:dev"


def job(name: str, image: str, command: list[str], **pod: Any) -> dict[str, Any]:
    """A Job of one pod that no namespace refuses; `pod` adds to its spec, and `mounts` to its container."""
    mounts = pod.pop("mounts", [])
    container = {
        "name": "main",
        "image": image,
        "command": command,
        "securityContext": {**scene.pod_security(), "runAsUser": 65532},
        "volumeMounts": mounts,
    }
    spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container], **pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": spec}},
    }


def run_job(cluster: Cluster, namespace: str, wanted: dict[str, Any], timeout_seconds: float = 90) -> str:
    """Run a Job to its end and return its log."""
    name = wanted["metadata"]["name"]
    cluster.apply(wanted, namespace=namespace)
    cluster.wait_for("job", name, "Complete", namespace=namespace, timeout_seconds=timeout_seconds)
    return cluster.logs(f"job/{name}", namespace)


def test_a_pod_on_the_node_sends_datagrams_that_arrive_behind_the_link(
    cluster: Cluster, namespace: NamespaceFactory
) -> None:
    with cluster.far_side():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind((cluster.diode.target, 0))
    receiver.settimeout(60)
    port = receiver.getsockname()[1]
    # The first binding to an interface needs no capability.
    program = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'{cluster.diode.nic}'); "
        f"[s.sendto(b'datagram %d' % i, ('{cluster.diode.target}', {port})) for i in range(100)]"
    )
    with receiver:
        run_job(cluster, namespace("privileged"), job("send", SENDER, ["python3", "-c", program], hostNetwork=True))
        arrived = [receiver.recv(100) for _ in range(100)]
    assert arrived == [b"datagram %d" % i for i in range(100)]


def test_nothing_comes_back_over_the_link(cluster: Cluster) -> None:
    if not cluster.diode.one_way:
        pytest.skip(f"the link of a {cluster.provider} cluster has no direction")
    assert isinstance(cluster, OwnNode)
    with cluster.far_side():
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        far.bind((cluster.diode.target, 0))
        far.settimeout(10)
    near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    near.settimeout(0.5)
    with far, near:
        near.sendto(b"ask", far.getsockname())
        _, sender = far.recvfrom(100)
        with pytest.raises(PermissionError):
            far.sendto(b"answer", sender)
        with pytest.raises(TimeoutError):
            near.recv(100)


def test_the_receiver_behind_the_link_writes_to_the_kafka_that_pods_read(
    cluster: Cluster,
    cluster_kafka: scene.TwoSides,
    far_receiver: ReceiverFactory,
    namespace: NamespaceFactory,
) -> None:
    topic = cluster_kafka.downstream.create_topic("over-the-link")
    receiver = far_receiver(cluster_kafka.downstream.bootstrap)
    assert receiver.stats()["datagrams"] == 0
    program = (
        "from confluent_kafka.admin import AdminClient; "
        f"topics = AdminClient({{'bootstrap.servers': '{cluster_kafka.downstream.bootstrap}'}}).list_topics(timeout=30)"
        ".topics; print(sorted(topics))"
    )
    said = run_job(cluster, namespace(), job("list", SENDER, ["python3", "-c", program]))
    assert topic in said


def test_a_claim_is_writable_by_the_group_of_a_pod_that_is_not_root_and_outlives_the_pod(
    cluster: Cluster, namespace: NamespaceFactory
) -> None:
    here = namespace()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.apply(claim, namespace=here)
    pod: dict[str, Any] = {
        "securityContext": {"fsGroup": 65532},
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
        "mounts": [{"name": "state", "mountPath": "/state"}],
    }
    run_job(cluster, here, job("write", BUSYBOX_IMAGE, ["sh", "-c", "echo kept > /state/file"], **dict(pod)))
    assert run_job(cluster, here, job("read", BUSYBOX_IMAGE, ["cat", "/state/file"], **dict(pod))) == "kept\n"


@pytest.mark.parametrize(
    ("image", "subcommands"),
    [
        (SENDER, {"resend", "windows", "bundle"}),
        (SPARK, {"scan", "audit", "windows", "bundle"}),
        (OPERATOR, {"windows", "bundle"}),
    ],
)
def test_an_image_starts_as_a_user_that_may_do_nothing_and_has_only_its_own_commands(
    cluster: Cluster, namespace: NamespaceFactory, image: str, subcommands: set[str]
) -> None:
    here = namespace()
    version = run_job(cluster, here, job("version", image, ["/opt/gapless/bin/gapless", "--version"]))
    assert version.startswith("gapless, version ")
    program = (
        "import importlib.metadata as m, json, sys; "
        "print(json.dumps([e.name for e in m.entry_points(group='gapless.commands')]))"
    )
    listed = set(json.loads(run_job(cluster, here, job("commands", image, ["python3", "-c", program]))))
    assert subcommands <= listed
    assert {"resend", "scan"} - listed or image not in (SENDER, SPARK)
    assert not ({"resend", "scan"} & listed - subcommands)


def test_pods_find_services_by_name(cluster: Cluster, namespace: NamespaceFactory) -> None:
    program = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
    said = run_job(cluster, namespace(), job("ask", SENDER, ["python3", "-c", program]))
    service = cluster.get("service", "kubernetes", "default")
    assert service is not None
    assert said.strip() == service["spec"]["clusterIP"]
