"""The worker processes of this host: it starts them, restarts those that died or hang, and stops them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.log import configure_logging
from gapless_kafka.access.stall_clock import StallClock
from gapless_mirror.settings.typed import MirrorSettings
from gapless_mirror.watch.mirror_watch import CHECKS_PER_STALL
from gapless_mirror.workers.process import ProcessSpec, StopSignals, run_until_done
from gapless_mirror.workers.worker import WorkerTotals

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext


_TICK_SECONDS = 0.2
_RESTART_SECONDS = 1.0
"""How long to wait before a worker that died is started again."""
_MIN_TIMEOUT_SECONDS = 15.0
"""A worker that releases lanes is silent for up to half of it."""
_REPORTED_AFTER = 2 / 3
"""The part of the timeout after which a silent worker is reported, so that the report comes before it is killed."""
_STOP_SECONDS = 27.0
"""How long workers may take to release lanes, leave the group, and finish the last requests of the watch."""
log = structlog.get_logger("mirror")


class SilentWorkers:
    """For how long each worker of this host has been silent, if that is too long; in shared memory.

    A worker that hangs cannot report that. The supervisor records it, and one of the responsive workers reports it.
    """

    def __init__(self, context: BaseContext, workers: int) -> None:
        """All are responsive. The object is passed to the processes when they start."""
        self._seconds: Any = context.Array("d", workers, lock=False)

    def record(self, worker: int, silent_seconds: float) -> None:
        """Record for how long a worker has been silent; 0 for a responsive one."""
        self._seconds[worker] = silent_seconds

    def reported_by(self, worker: int) -> dict[int, float]:
        """Return the silent workers if `worker` is the first responsive one, otherwise none."""
        silent = {number: seconds for number, seconds in enumerate(self._seconds) if seconds}
        responsive = (number for number in range(len(self._seconds)) if number not in silent)
        return silent if next(responsive, None) == worker else {}


@dataclass
class _Process:
    spec: ProcessSpec
    process: Any
    connection: Connection
    pulse: Any
    """When the worker was last active, on the monotonic clock; 0 before the first time."""
    silence: StallClock
    totals: WorkerTotals | None = None
    error: Exception | None = None
    last_pulse: float = 0.0
    """The last value of `pulse`."""
    restart_at: float | None = None
    has_ended: bool = False


class Supervisor:
    """The worker processes of this host."""

    def __init__(self, values: Mapping[str, Any], specs: list[ProcessSpec]) -> None:
        """Start the processes."""
        self._values = values
        self._context = multiprocessing.get_context("spawn")
        self._silent_workers = SilentWorkers(self._context, len(specs))
        self._processes = [self._start(spec) for spec in specs]

    def run(self, is_stopping: Callable[[], bool]) -> list[WorkerTotals]:
        """Wait for the end of all workers, or stop them when `is_stopping`.

        Raises:
            GaplessError: a worker has failed with it; the others are stopped.
        """
        try:
            while not is_stopping() and not all(worker.has_ended for worker in self._processes):
                for worker in self._processes:
                    self._check(worker)
                if any(worker.error is not None for worker in self._processes):
                    break
                time.sleep(_TICK_SECONDS)
        finally:
            self._stop()
        for worker in self._processes:
            if worker.error is not None:
                raise worker.error
        return [worker.totals or WorkerTotals() for worker in self._processes]

    def _check(self, worker: _Process) -> None:
        """Receive the result of a worker, kill it if it hangs, or restart it if it has died."""
        self._receive(worker)
        if worker.has_ended:
            return
        if worker.process.is_alive():
            self._kill_if_silent(worker)
            return
        self._receive(worker)
        if worker.has_ended:
            return
        if worker.restart_at is None:
            log.warning("worker died", worker=worker.spec.worker, exit_code=worker.process.exitcode)
            worker.restart_at = time.monotonic() + _RESTART_SECONDS
        elif time.monotonic() >= worker.restart_at:
            new = self._start(worker.spec)
            worker.process, worker.connection, worker.restart_at = new.process, new.connection, None
            worker.pulse, worker.silence, worker.last_pulse = new.pulse, new.silence, new.last_pulse
            self._silent_workers.record(worker.spec.worker, 0)

    def _kill_if_silent(self, worker: _Process) -> None:
        """Kill a worker that is silent for too long. Kafka has moved its lanes to other workers before."""
        pulse = worker.pulse.value
        worker.silence.end_wait(progress=not pulse or pulse != worker.last_pulse)
        worker.last_pulse = pulse
        worker.silence.start_wait()
        silent = worker.silence.silent_seconds
        is_reported = silent > _REPORTED_AFTER * self._timeout_seconds
        self._silent_workers.record(worker.spec.worker, silent if is_reported else 0)
        if worker.silence.is_stalled:
            log.warning("worker killed", worker=worker.spec.worker, silent_seconds=round(silent, 1))
            worker.process.kill()
            worker.process.join()

    def _receive(self, worker: _Process) -> None:
        try:
            while not worker.has_ended and worker.connection.poll():
                result = worker.connection.recv()
                worker.has_ended = True
                if isinstance(result, WorkerTotals):
                    worker.totals = result
                else:
                    worker.error = result
        except (EOFError, OSError):
            return

    def _stop(self) -> None:
        for worker in self._processes:
            if worker.process.is_alive():
                worker.process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in self._processes:
            while worker.process.is_alive() and time.monotonic() < deadline:
                self._receive(worker)
                worker.process.join(0.05)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            self._receive(worker)

    @property
    def _timeout_seconds(self) -> float:
        """How long a worker may be silent."""
        return max(CHECKS_PER_STALL * MirrorSettings.of(self._values).look_interval, _MIN_TIMEOUT_SECONDS)

    def _start(self, spec: ProcessSpec) -> _Process:
        receiver, sender = self._context.Pipe(duplex=False)
        pulse = self._context.Value("d", 0.0, lock=False)
        process = self._context.Process(
            target=_worker_main,
            args=(dict(self._values), spec, sender, pulse, self._silent_workers),
            name=f"gapless-mirror-{spec.worker}",
        )
        process.start()
        sender.close()
        silence = StallClock(self._timeout_seconds)
        silence.start_wait()
        return _Process(spec, process, receiver, pulse, silence)


def _worker_main(
    values: Mapping[str, Any], spec: ProcessSpec, connection: Connection, pulse: Any, silent_workers: SilentWorkers
) -> None:
    settings = MirrorSettings.of(values)
    configure_logging(settings.log_level, settings.log_file_name)
    parent = os.getppid()
    with StopSignals() as signals:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the supervisor stops this process

        def is_stopping() -> bool:
            pulse.value = time.monotonic()
            return signals.is_set() or os.getppid() != parent

        outcome: WorkerTotals | GaplessError
        try:
            outcome = run_until_done(
                values, spec, is_stopping, stuck_workers=lambda: silent_workers.reported_by(spec.worker)
            )
        except GaplessError as error:
            outcome = error
        with suppress(BrokenPipeError):  # the supervisor was killed
            connection.send(outcome)
