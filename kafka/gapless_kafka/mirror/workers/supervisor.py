"""Owns the worker processes of this host: it starts them, replaces those that died or hang, and ends them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.log import configure_logging
from gapless_kafka.access.stall_clock import StallClock
from gapless_kafka.mirror.watch.mirror_watch import LOOKS_OF_STALL
from gapless_kafka.mirror.workers.process import StopSignals, run_worker
from gapless_kafka.mirror.workers.siblings import Siblings
from gapless_kafka.mirror.workers.worker import WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection

    from gapless_kafka.mirror.workers.process import Part

_TICK_SECONDS = 0.2
_AGAIN_SECONDS = 1.0
"""Before a worker that died is started again."""
_LEAST_SILENCE_SECONDS = 15.0
"""A worker that gives lanes back is silent for half of it."""
_TOLD_AFTER = 2 / 3
"""Of the silence after which a worker is killed: so the others can tell that it hangs before it is gone."""
_END_SECONDS = 27.0
"""How long workers may take to their end: to give lanes back, to leave the group, and for the last looks."""
log = structlog.get_logger("mirror")


@dataclass
class _Process:
    part: Part
    process: Any
    connection: Connection
    pulse: Any
    """When the worker showed a sign of life last, on the monotonic clock; 0 before the first."""
    silence: StallClock
    account: WorkerTotals | None = None
    error: Exception | None = None
    heard: float = 0.0
    """The last sign of life that was seen."""
    again_at: float | None = None
    is_over: bool = False


class Supervisor:
    """The worker processes of this host."""

    def __init__(self, values: Mapping[str, Any], parts: list[Part]) -> None:
        """Nothing is started yet."""
        self._values = values
        self._context = multiprocessing.get_context("spawn")
        self._siblings = Siblings(self._context, len(parts))
        self._processes = [self._started(part) for part in parts]

    def run(self, is_stopping: Callable[[], bool]) -> list[WorkerTotals]:
        """Wait for the end of all workers, or end them when `is_stopping`.

        Raises:
            GaplessError: what a worker ended with; the others are ended then.
        """
        try:
            while not is_stopping() and not all(one.is_over for one in self._processes):
                self._look()
                if any(one.error is not None for one in self._processes):
                    break
                time.sleep(_TICK_SECONDS)
        finally:
            self._end()
        for one in self._processes:
            if one.error is not None:
                raise one.error
        return [one.account or WorkerTotals() for one in self._processes]

    def _look(self) -> None:
        for one in self._processes:
            self._receive(one)
            if one.is_over:
                continue
            if one.process.is_alive():
                self._end_stuck(one)
                continue
            self._receive(one)
            if one.is_over:
                continue
            if one.again_at is None:
                log.warning("worker died", worker=one.part.worker, exit_code=one.process.exitcode)
                one.again_at = time.monotonic() + _AGAIN_SECONDS
            elif time.monotonic() >= one.again_at:
                fresh = self._started(one.part)
                one.process, one.connection, one.again_at = fresh.process, fresh.connection, None
                one.pulse, one.silence, one.heard = fresh.pulse, fresh.silence, fresh.heard
                self._siblings.note(one.part.worker, 0)

    def _end_stuck(self, one: _Process) -> None:
        """Kill a worker that shows no sign of life. Its lanes are fenced and moved to others long before."""
        beat = one.pulse.value
        one.silence.waited(heard=not beat or beat != one.heard)
        one.heard = beat
        one.silence.ask()
        silent = one.silence.silent_seconds
        self._siblings.note(one.part.worker, silent if silent > _TOLD_AFTER * self._longest_silence_seconds else 0)
        if one.silence.is_stalled:
            log.warning("worker killed", worker=one.part.worker, silent_seconds=round(silent, 1))
            one.process.kill()
            one.process.join()

    def _receive(self, one: _Process) -> None:
        try:
            while not one.is_over and one.connection.poll():
                found = one.connection.recv()
                one.is_over = True
                if isinstance(found, WorkerTotals):
                    one.account = found
                else:
                    one.error = found
        except (EOFError, OSError):
            return

    def _end(self) -> None:
        for one in self._processes:
            if one.process.is_alive():
                one.process.terminate()
        deadline = time.monotonic() + _END_SECONDS
        for one in self._processes:
            while one.process.is_alive() and time.monotonic() < deadline:
                self._receive(one)
                one.process.join(0.05)
            if one.process.is_alive():
                one.process.kill()
                one.process.join()
            self._receive(one)

    @property
    def _longest_silence_seconds(self) -> float:
        return max(LOOKS_OF_STALL * float(self._values["lookInterval"]), _LEAST_SILENCE_SECONDS)

    def _started(self, part: Part) -> _Process:
        ours, theirs = self._context.Pipe(duplex=False)
        pulse = self._context.Value("d", 0.0, lock=False)
        process = self._context.Process(
            target=_worker_main,
            args=(dict(self._values), part, theirs, pulse, self._siblings),
            name=f"gapless-mirror-{part.worker}",
        )
        process.start()
        theirs.close()
        silence = StallClock(self._longest_silence_seconds)
        silence.ask()
        return _Process(part, process, ours, pulse, silence)


def _worker_main(values: Mapping[str, Any], part: Part, connection: Connection, pulse: Any, siblings: Siblings) -> None:
    """Be a worker process."""
    configure_logging(values["logLevel"], values["logFileName"])
    parent = os.getppid()
    with StopSignals() as signals:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all; the supervisor ends us

        def is_stopping() -> bool:
            pulse.value = time.monotonic()
            return signals.is_set() or os.getppid() != parent

        try:
            account = run_worker(values, part, is_stopping, stuck_workers=lambda: siblings.told_by(part.worker))
        except GaplessError as error:
            connection.send(error)
        else:
            connection.send(account)
