"""Running the command ``gapless`` in forks of a process of its own, with a wall clock that jumps, and killed.

The environment variable `KILL` ends a program with SIGKILL before one of its commits, as late as that is possible, or
at once after it.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.machine.forked_commands import ForkedCommands
from kit.machine.wall_clock import WallClock, compiler

if TYPE_CHECKING:
    import subprocess

KILL = "GAPLESS_TEST_KILL"
_MODULES = (
    "gapless_archive.cli.segments",
    "gapless_archive.compaction.compactor",
    "gapless_archive.compaction.local_runner",
    "gapless_archive.inspection.verification",
    "gapless_archive.store.object_store",
    "gapless_mirror.cli.doctor",
    "gapless_mirror.cli.mirror_diff",
    "gapless_mirror.cli.mirror_groups",
    "gapless_mirror.doctor.command",
    "gapless_mirror.workers.command",
    "gapless_mirror.workers.diff_command",
    "gapless_mirror.workers.status_command",
    "gapless_spark.archiving.archive.command",
    "gapless_spark.archiving.archive.once",
    "gapless_spark.archiving.compact.command",
    "gapless_spark.archiving.verify_copy.command",
    "gapless_spark.archiving.restore.command",
    "gapless_spark.cli.commands",
    "gapless_spark.cli.verify_copy",
)


class Kill(NamedTuple):
    """The commit at which a program is killed."""

    number: int
    after: bool = False


class Commands:
    """Runs ``gapless`` with a wall clock."""

    def __init__(self, clock: WallClock | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gapless-state-")
        self._others: Commands | None = None
        self.clock = clock or (WallClock(Path(self._folder.name)) if compiler() else None)
        surroundings = dict(os.environ)
        tests = str(Path(__file__).parents[1])
        self._environment = {**surroundings, **(self.clock.environment if self.clock else {})}
        path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
        preloaded = {**(self.clock.environment if self.clock else {}), "PYTHONPATH": path}
        self._commands = ForkedCommands("state.commands:program", *_MODULES, environment=preloaded)
        atexit.register(self.close)

    def run(self, *arguments: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``gapless`` and wait; with `kill` it is killed at this commit, if it comes so far."""
        environment = {**self._environment, **({KILL: json.dumps(kill)} if kill is not None else {})}
        return self._commands.run(*arguments, env=environment)

    @property
    def others(self) -> Commands:
        """Other forks, which run at the same time, by the same clock."""
        if self._others is None:
            self._others = Commands(self.clock)
        return self._others

    def close(self) -> None:
        """End the process, and remove the clock."""
        if self._others is not None:
            self._others.close()
        self._commands.close()
        self._folder.cleanup()


def program() -> int | None:
    """Run ``gapless`` in this process, which is a fork. Returns the exit code."""
    from gapless_api.cli.main import program as gapless  # noqa: PLC0415 -- only the forks need the product

    point = os.environ.pop(KILL, None)
    if point is not None:
        _kill_at(Kill(*json.loads(point)))
    return gapless()


def _kill_at(point: Kill) -> None:
    """Let this process kill itself when everything of a transaction has reached the brokers except its commit."""
    from gapless_archive.catalog.chain import Chain  # noqa: PLC0415
    from gapless_kafka.writing.transactions import TransactionalProducer  # noqa: PLC0415
    from gapless_mirror.lanes.writer import LaneWriter  # noqa: PLC0415

    numbers = itertools.count(1)

    def interrupted(commit: Any, flush: Callable[[Any], object]) -> Any:
        def committed(self: Any, *arguments: Any) -> Any:
            if isinstance(self, LaneWriter) and not self.written:
                return commit(self)
            is_last = next(numbers) >= point.number
            if is_last and not point.after:
                flush(self)
                os.kill(os.getpid(), signal.SIGKILL)
            result = commit(self, *arguments)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return committed

    LaneWriter.commit = interrupted(LaneWriter.commit, lambda self: self._producer.client.flush(10))  # type: ignore[method-assign]
    Chain.commit = interrupted(Chain.commit, lambda _: None)  # type: ignore[method-assign]
    if sys.argv[1] == "restore":
        TransactionalProducer.commit = interrupted(  # type: ignore[method-assign]
            TransactionalProducer.commit, lambda self: self.client.flush(10)
        )
