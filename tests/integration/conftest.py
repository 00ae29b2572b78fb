"""Owns the fixtures of the resend tests with a real broker and socket, and the distribution of tests to processes."""

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
"""Folders whose tests share an expensive resource: an API server, Spark, a browser."""
IN_ANOTHER = ("test_shell_crashes.py",)
"""Files of these folders that run in a process of their own, because they take as long as all others together."""
LONGEST_FIRST = (*IN_ONE_PROCESS, "mirror", "faults", "restore", "archive", "chart", "")
"""Folders in the order in which they start, so that no long one starts last."""


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Runs the tests of a file, or of a folder in `IN_ONE_PROCESS`, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        path = Path(file)
        shared = path.parent.name in IN_ONE_PROCESS and path.name not in IN_ANOTHER
        return str(path.parent) if shared else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling | None:
    """Use `FolderScheduling` for `--dist loadfile`, in the order of collection."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return FolderScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by `LONGEST_FIRST`, after tests outside of this folder."""

    def position(item: pytest.Item) -> int:
        folder = item.path.parent
        if HERE not in (folder, folder.parent):
            return -1
        return LONGEST_FIRST.index("" if folder == HERE else folder.name)

    items.sort(key=position)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the shared resources of a folder if the next test is in another folder."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            close_shared_resources(item.path.parent)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A receiver's port that records every datagram."""
    with Listener() as listening:
        yield listening


@pytest.fixture
def resend(kafka: KafkaBroker, listener: Listener, tmp_path: Path) -> Resend:
    """`gapless resend` from `kafka` to `listener`."""
    settings = {"bootstrapServers": kafka.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
    return Resend(tmp_path, settings)
