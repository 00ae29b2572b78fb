"""The order of the tests and their distribution to processes, for all tiers; must not know what they test.

A pytest plugin, loaded by `tests/conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

from kit.machine.shared_resources import close_shared_resources

if TYPE_CHECKING:
    from xdist.remote import Producer

TESTS = Path(__file__).parents[2]
IN_ONE_PROCESS = ("cluster/operator", "integration/spark", "e2e")
"""Folders whose tests share an expensive resource: an API server, Spark, Kafka on both sides of a link."""
IN_ANOTHER = (
    "test_shell_crashes.py",
    "test_rotated_token.py",
    "test_slow_api_server.py",
    "test_forgotten_watches.py",
    "test_api_validation.py",
    "test_chart.py",
    "test_cluster.py",
    "test_faults.py",
)
"""Files of these folders that run in a process of their own, because they share less and take as long as all others."""
LONGEST_FIRST = (
    *IN_ONE_PROCESS,
    "state",
    "integration/mirror",
    "integration/faults",
    "integration/restore",
    "integration/archive",
    "cluster/chart",
    "integration",
)
"""Folders in the order in which they start, so that no long one starts last."""


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Runs the tests of a file, or of a folder in `IN_ONE_PROCESS`, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        path = Path(file)
        shared = path.parent.as_posix().removeprefix("tests/") in IN_ONE_PROCESS and path.name not in IN_ANOTHER
        return str(path.parent) if shared else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling | None:
    """Use `FolderScheduling` for `--dist loadfile`, in the order of collection."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return FolderScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by `LONGEST_FIRST`, after tests of other folders."""

    def position(item: pytest.Item) -> int:
        folder = item.path.parent
        name = folder.relative_to(TESTS).as_posix() if folder.is_relative_to(TESTS) else ""
        return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else -1

    items.sort(key=position)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the shared resources of a folder if the next test is in another folder."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            close_shared_resources(item.path.parent)
