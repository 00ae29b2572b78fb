"""Owns the fixtures of the end-to-end tests: a real cluster with the product's images, and resources in it.

The session enters the network of the cluster's node, so processes that the main thread starts are there, too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kit.cluster import images, product, scene, selection
from kit.cluster.places import places
from kit.machine.maven import file_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.cluster.access import Cluster
    from kit.peer.receiver import Receiver

IMAGE_VERSION = "dev"
_HERE = Path(__file__).parent
_numbers = itertools.count(1)


class NamespaceFactory(Protocol):
    """Creates a namespace with a pod security level; it is deleted after the test."""

    def __call__(self, level: str = "restricted", *, prefix: str = "test") -> str: ...


class ReceiverFactory(Protocol):
    """Starts the peer's receiver behind the one-way link; options as for `kit.peer.receiver.Receiver`."""

    def __call__(self, bootstrap: str, **options: Any) -> Receiver: ...


class SiteFactory(Protocol):
    """Creates a one-way link with Kafka, receiver and detector; options as for `kit.cluster.product.site`."""

    def __call__(self, **options: Any) -> product.Site: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[Cluster]:
    """A running cluster, with this process on its near side; for tests without pods of the product."""
    running = selection.bring_up()
    with running.near_side():
        yield running


@pytest.fixture(scope="session")
def cluster(bare_cluster: Cluster) -> Cluster:
    """The cluster, with the images of this checkout loaded."""
    if os.environ.get("GAPLESS_IMAGES") == "loaded":  # saves time while developing tests
        return bare_cluster
    with bare_cluster.host_network():
        archives = images.build(["sender", "operator", "spark-operator"], IMAGE_VERSION)
    bare_cluster.load(archives)
    return bare_cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[NamespaceFactory]:
    """Create namespaces; they are deleted after the test."""
    made: list[str] = []

    def make(level: str = "restricted", *, prefix: str = "test") -> str:
        name = f"{prefix}-{os.getpid()}-{next(_numbers)}"
        scene.make_namespace(cluster, name, level)
        made.append(name)
        return name

    yield make
    if made and not os.environ.get("GAPLESS_KEEP"):
        cluster.kubectl("delete", "namespace", *made, "--wait=false")


@pytest.fixture(scope="session")
def spark_operator(cluster: Cluster) -> Cluster:
    """The cluster, with the real Spark operator installed."""
    scene.install_spark_operator(cluster, IMAGE_VERSION)
    return cluster


@pytest.fixture(scope="session")
def cluster_kafka(cluster: Cluster) -> Iterator[scene.TwoSides]:
    """Kafka on both sides of the link for the session."""
    with scene.two_sides(cluster) as sides:
        yield sides


@pytest.fixture
def far_receiver(cluster: Cluster) -> Iterator[ReceiverFactory]:
    """Start receivers behind the link; they are stopped after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda bootstrap, **options: stack.enter_context(scene.far_receiver(cluster, bootstrap, **options))


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Iterator[product.Installation]:
    """A new installation of the product with helm, with all roles on one cluster."""
    with file_lock(places().run / "installation.lock"):  # other runs use the same cluster
        product.remove(cluster)
        installation = product.installation(cluster, IMAGE_VERSION)
        installation.upgrade()
        yield installation
        if not os.environ.get("GAPLESS_KEEP"):
            product.remove(cluster)


@pytest.fixture
def next_version(installed: product.Installation) -> Iterator[str]:
    """A version to upgrade to, with the same images; the previous version is installed again after the test."""
    version = f"{IMAGE_VERSION}-next"
    for image in product.IMAGES:
        installed.cluster.add_tag(f"gapless/{image}:{IMAGE_VERSION}", f"gapless/{image}:{version}")
    yield version
    installed.upgrade()


@pytest.fixture
def make_site(installed: product.Installation, cluster_kafka: scene.TwoSides) -> Iterator[SiteFactory]:
    """Create sites; they are removed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(product.site(installed.cluster, cluster_kafka, **options))


@pytest.fixture
def site(make_site: SiteFactory) -> product.Site:
    """One site."""
    return make_site()
