"""The fixtures of the end-to-end tests: a real cluster with the product's images, and resources in it.

The session enters the network of the cluster's node, so processes that the main thread starts are there, too. The
processes of one run share one installation of the product and one Spark operator; another run waits for its end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kit.cluster import images, product, scene, selection
from kit.cluster.places import places
from kit.machine.distribution import IN_ANOTHER
from kit.machine.maven import file_lock

if TYPE_CHECKING:
    from kit.cluster.access import Cluster
    from kit.peer.receiver import Receiver

IMAGE_VERSION = "dev"
INSTALLATION, SPARK_OPERATOR = "installation", "spark-operator"
"""What is installed once in a run."""
_IN_THE_INSTALLATION = {"make_site", "next_version"}
"""Fixtures that only one process of a run may use."""
_HERE = Path(__file__).parent
_RUN = os.environ.setdefault("GAPLESS_E2E_RUN", f"{os.getpid()}-{time.time_ns()}")
"""Identifies the run; the processes in which pytest runs tests inherit it."""
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
            if item.path.name in IN_ANOTHER and _IN_THE_INSTALLATION & set(getattr(item, "fixturenames", ())):
                raise pytest.UsageError(
                    f"{item.nodeid} changes the installation or its namespaces beside other tests: take its file from "
                    "IN_ANOTHER in tests/kit/machine/distribution.py."
                )


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Let one run at a time use the cluster, and remove the product after the last test of all processes."""
    if hasattr(session.config, "workerinput"):
        return (yield)
    with file_lock(places().cache / "cluster" / "e2e.lock"):
        try:
            return (yield)
        finally:
            if _was_installed(INSTALLATION) and not os.environ.get("GAPLESS_KEEP"):
                product.remove(selection.bring_up())


def _install_once(what: str, install: Callable[[], object]) -> None:
    """Install something in the first process of the run that needs it; the others wait until it is there."""
    with file_lock(places().run / f"{what}.lock"):
        if not _was_installed(what):
            install()
            _installed_by(what).write_text(_RUN)


def _was_installed(what: str) -> bool:
    """Whether this run has installed something."""
    return _installed_by(what).exists() and _installed_by(what).read_text() == _RUN


def _installed_by(what: str) -> Path:
    return places().run / f"{what}.run"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running cluster with the images of this checkout loaded, and this process on its near side."""
    running = selection.bring_up()
    if os.environ.get("GAPLESS_IMAGES") != "loaded":  # which saves time while developing tests
        running.load(images.build(["sender", "operator", "spark-operator"], IMAGE_VERSION))
    with running.near_side():
        yield running


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
    _install_once(SPARK_OPERATOR, lambda: scene.install_spark_operator(cluster, IMAGE_VERSION))
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
def installed(cluster: Cluster) -> product.Installation:
    """A new installation of the product with helm, with all roles on one cluster; it is removed when the run ends."""
    installation = product.installation(cluster, IMAGE_VERSION)

    def install() -> None:
        product.remove(cluster)
        installation.upgrade()

    _install_once(INSTALLATION, install)
    return installation


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
