"""The environment of end-to-end tests in a cluster: namespaces, the real Spark operator, Kafka on both sides.

Must not know the product's kinds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.cluster.build import SPARK_OPERATOR
from kit.kafka.broker import KafkaBroker
from kit.peer.receiver import Receiver

if TYPE_CHECKING:
    from kit.cluster.access import Cluster

SPARK_OPERATOR_NAMESPACE = "spark-operator"
_SPARK_OPERATOR_MODULE = "github.com/kubeflow/spark-operator/v2"


def make_namespace(cluster: Cluster, name: str, level: str) -> None:
    """Create a namespace that enforces a pod security level: "restricted", "baseline" or "privileged"."""
    labels = {
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/enforce-version": "latest",
        "gapless.dev/test": str(os.getpid()),
    }
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def install_spark_operator(cluster: Cluster, image_tag: str) -> None:
    """Install or upgrade the real Spark operator with its own chart, for all namespaces."""
    values = {
        "image.registry": "docker.io",
        "image.repository": "gapless/spark-operator",
        "image.tag": image_tag,
        "spark.jobNamespaces[0]": "",
        "controller.workers": 2,
        # A single replica needs no leader election, and starts faster without it.
        "controller.leaderElection.enable": "false",
        "webhook.leaderElection.enable": "false",
    }
    settings = [f"--set={name}={value}" for name, value in values.items()]
    options = [f"--namespace={SPARK_OPERATOR_NAMESPACE}", "--create-namespace", "--wait", "--timeout=3m"]
    with cluster.host_network():  # the module and helm may have to be downloaded
        chart = SPARK_OPERATOR.module_folder(_SPARK_OPERATOR_MODULE) / "charts" / "spark-operator-chart"
        cluster.helm("upgrade", "--install", "spark-operator", str(chart), *options, *settings)


@dataclass(frozen=True)
class TwoSides:
    """Kafka on both sides of the one-way link; pods reach both at their `bootstrap`."""

    upstream: KafkaBroker
    downstream: KafkaBroker


@contextlib.contextmanager
def two_sides(cluster: Cluster, **options: Any) -> Iterator[TwoSides]:
    """Run both brokers on the near side; options as for `KafkaBroker`.

    The downstream one is there, too, because scans in the same cluster read it, and the receiver can reach it.
    """
    with contextlib.ExitStack() as stack:
        upstream, downstream = (
            stack.enter_context(KafkaBroker(address=cluster.near_address, **options)) for _ in range(2)
        )
        yield TwoSides(upstream, downstream)


@contextlib.contextmanager
def far_receiver(cluster: Cluster, bootstrap: str, **options: Any) -> Iterator[Receiver]:
    """Run the peer's receiver behind the one-way link, at `cluster.diode.target`; options as for `Receiver`."""
    receiver = Receiver(bootstrap, address=cluster.diode.target, **options)
    with cluster.far_side():
        receiver.start()
    try:
        yield receiver
    finally:
        receiver.close()


def pod_security() -> dict[str, Any]:
    """Return a container's security context that satisfies the level "restricted"."""
    return {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
