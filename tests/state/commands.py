"""Owns running the command ``gapless`` in forks of a process of its own, with a wall clock that jumps, and killed.

The environment variable `KILL` ends a mirror with SIGKILL before one of its commits, as late as that is possible.
"""

from __future__ import annotations

import atexit
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.machine.forked_commands import ForkedCommands
from kit.machine.wall_clock import WallClock, compiler

if TYPE_CHECKING:
    import subprocess

KILL = "GAPLESS_TEST_KILL_BEFORE"
_MODULES = (
    "gapless_archive.cli.segments",
    "gapless_archive.compaction.compactor",
    "gapless_archive.compaction.local_runner",
    "gapless_archive.inspection.verification",
    "gapless_archive.store.object_store",
    "gapless_kafka.cli.doctor",
    "gapless_kafka.cli.mirror_diff",
    "gapless_kafka.cli.mirror_groups",
    "gapless_kafka.doctor.command",
    "gapless_kafka.mirror.workers.command",
    "gapless_kafka.mirror.workers.diff_command",
    "gapless_kafka.mirror.workers.status_command",
    "gapless_spark.archiving.archive.command",
    "gapless_spark.archiving.archive.once",
    "gapless_spark.archiving.compact.command",
    "gapless_spark.archiving.copy_check.command",
    "gapless_spark.archiving.restore.command",
    "gapless_spark.cli.commands",
    "gapless_spark.cli.verify_copy",
)


class Commands:
    """Runs ``gapless`` with a wall clock."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gapless-state-")
        self.clock = WallClock(Path(self._folder.name)) if compiler() else None
        surroundings = dict(os.environ)
        tests = str(Path(__file__).parents[1])
        self._environment = {**surroundings, **(self.clock.environment if self.clock else {})}
        preloaded = {**(self.clock.environment if self.clock else {}), "PYTHONPATH": tests}
        self._commands = ForkedCommands("state.commands:program", *_MODULES, environment=preloaded)
        atexit.register(self.close)

    def run(self, *arguments: str, kill_before: int = 0) -> subprocess.CompletedProcess[str]:
        """Run ``gapless`` and wait; with `kill_before` a mirror is killed before its commit with that number."""
        environment = {**self._environment, **({KILL: str(kill_before)} if kill_before else {})}
        return self._commands.run(*arguments, env=environment)

    def close(self) -> None:
        """End the process, and remove the clock."""
        self._commands.close()
        self._folder.cleanup()


def program() -> int | None:
    """Run ``gapless`` in this process, which is a fork. Returns the exit code."""
    from gapless_api.cli.main import program as gapless  # noqa: PLC0415 -- only the forks need the product

    number = int(os.environ.pop(KILL, "0"))
    if number:
        _kill_before(number)
    return gapless()


def _kill_before(number: int) -> None:
    """Let this process kill itself when everything of a transaction has reached the brokers except its commit."""
    from gapless_archive.catalog.chain import Chain  # noqa: PLC0415
    from gapless_kafka.mirror.lanes.writer import LaneWriter  # noqa: PLC0415

    commit, commit_entry, count = LaneWriter.commit, Chain.commit, 0

    def committed(self: LaneWriter) -> None:
        nonlocal count
        count += bool(self.written)
        if self.written and count >= number:
            self._producer.client.flush(10)
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self)

    def entry_committed(self: Chain, state: Any, changes: Any) -> Any:
        nonlocal count
        count += 1
        if count >= number:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit_entry(self, state, changes)

    LaneWriter.commit = committed  # type: ignore[method-assign]
    Chain.commit = entry_committed  # type: ignore[method-assign]
