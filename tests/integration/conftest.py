"""Owns the fixtures of the tests that resend from a real broker to a real socket, and in which process a test runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

from kit.machine.shared_resources import close_shared_resources
from kit.network.listener import Listener
from kit.story.resending import Resend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

    from kit.kafka.broker import KafkaBroker

HERE = Path(__file__).parent
IN_ONE_PROCESS = ("operator", "spark", "report_page")
"""Folders whose tests share what costs much to start, or also when it is idle: an API server, Spark, a browser."""
IN_ANOTHER = ("test_shell_crashes.py",)
"""Files of these folders that take as long as all others of theirs together."""
LONGEST_FIRST = (*IN_ONE_PROCESS, "mirror", "faults", "restore", "archive", "chart", "")
"""Folders in the order in which they begin, so that none of the long ones is left over at the end."""


class ByPlace(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file, or of a whole folder if it is in `IN_ONE_PROCESS`, run in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        place = Path(file)
        shared = place.parent.name in IN_ONE_PROCESS and place.name not in IN_ANOTHER
        return str(place.parent) if shared else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByPlace | None:
    """Take ours for `--dist loadfile`, in the order in which the tests were collected."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return ByPlace(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders into the order of `LONGEST_FIRST`, behind tests that are none of ours."""

    def place(item: pytest.Item) -> int:
        folder = item.path.parent
        if HERE not in (folder, folder.parent):
            return -1
        return LONGEST_FIRST.index("" if folder == HERE else folder.name)

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End what the tests of a folder share when one of another folder follows."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            close_shared_resources(item.path.parent)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A receiver's port that keeps every datagram."""
    with Listener() as listening:
        yield listening


@pytest.fixture
def resend(kafka: KafkaBroker, listener: Listener, tmp_path: Path) -> Resend:
    """`gapless resend` from `kafka` to `listener`."""
    settings = {"bootstrapServers": kafka.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
    return Resend(tmp_path, settings)
