"""Owns the processes of a parallel resend, with their pipes and signals, and the account of what they have done.

Must not know how a partition is sent, nor decide anything about workers: that is the `supervisor`'s. Workers are forked
before Kafka's client has made any thread; session keys go through their pipes, never through an argument, a file or the
environment. The account is made of what each worker told after each batch, so that it is right however a worker ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError, LocalStorageError, StoppedError
from gapless_api.base.hangup import on_hangup
from gapless_sender.base.shutdown import PATIENCE_SECONDS
from gapless_sender.replay.checkpoint import remove_shard_files
from gapless_sender.replay.report import Traffic
from gapless_sender.source.plan import wishes_of_all
from gapless_sender.workers.channel import BatchDone, Exhausted, Finished, Go, Inlet, Outlet, Pause, Paused, Ready, pipe
from gapless_sender.workers.partition_work import PartitionWork, known_partitions, partition_work, total_of
from gapless_sender.workers.supervisor import (
    Action,
    Event,
    Failed,
    Phase,
    Supervisor,
    WorkerDied,
    WorkerFinished,
    WorkerPaused,
    WorkerReady,
)
from gapless_sender.workers.worker import run_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.totals import Totals
    from gapless_sender.workers.partition_worker import ResendContext
    from gapless_sender.workers.runtime import SenderRuntime
    from gapless_sender.workers.supervisor import AnyEvent, Command

_POLL_SECONDS = 0.25
_KILL_SECONDS = PATIENCE_SECONDS + 0.75
"""So long after it was asked to stop a worker is killed; it cuts its own batch before."""
_FAREWELL_SECONDS = 0.75
"""So long a worker that has told its last account may take to close what it has."""
_STATUS_SECONDS = 0.25
"""So long after a pipe broke the exit code of its worker is waited for."""


class PoolAccount:
    """What all workers together have planned and done."""

    def __init__(self, resend: ResendContext, workers: int) -> None:
        self.partitions: dict[TopicPartition, PartitionWork] = {}
        self.traffic = [Traffic() for _ in range(workers)]
        self._resend = resend

    def add_partitions(self, ready: Ready) -> bool:
        """Take over what a worker has planned, and say whether it has work. Raises ConfigurationError."""
        progress, selection = self._resend.progress, self._resend.selection
        progress.bounds |= ready.bounds
        progress.topic_ids |= ready.topic_ids
        known = selection.wishes
        if selection.all_partitions_of is not None:
            last = max((selection.window.to_upstream(partition) for _, partition in ready.keys), default=-1)
            known = wishes_of_all(selection, last + 1)
        mine = frozenset(ready.keys)
        partitions = {key: partition_work(wish, progress) for wish in known if (key := wish.key) in mine}
        self.partitions |= partitions
        self._resend.account.begin(self.totals)
        return any(not partition.done for partition in partitions.values())

    def settle(self, worker: int, batch: BatchDone) -> None:
        """Take in what a batch did."""
        self.partitions[batch.key].account.apply(batch.result)
        self.traffic[worker] = batch.traffic

    @property
    def totals(self) -> Totals:
        """All partitions that are planned."""
        return total_of(list(self.partitions.values()))

    @property
    def datagrams(self) -> int:
        """What the workers have sent."""
        return sum(traffic.datagrams for traffic in self.traffic)

    def conclude(self, own: Traffic, keys_announced: int) -> None:
        """Put the account of the whole together; partitions that no worker came to plan are in it as far as known."""
        account = self._resend.account
        with suppress(GaplessError):  # A checkpoint that does not fit, which ended the work.
            for partition in known_partitions(self._resend.selection, self._resend.progress):
                self.partitions.setdefault((partition.plan.place.topic, partition.plan.place.partition), partition)
        account.partitions = [partition.result for _, partition in sorted(self.partitions.items())]
        account.traffic = own
        for traffic in self.traffic:
            account.traffic.add(traffic)
        account.keys_announced = keys_announced
        self._resend.view.end(self.totals, account.traffic.datagrams)


@dataclass(slots=True)
class _Worker:
    """A process, as the parent has it."""

    process: Any
    inlet: Inlet
    outlet: Outlet
    is_heard: bool = True
    """Whether something can still come from it."""


class WorkerPool:
    """The processes of one resend."""

    def __init__(self, runtime: SenderRuntime, resend: ResendContext, workers: int) -> None:
        self._runtime = runtime
        self._resend = resend
        self._keys = runtime.announced_keys()
        self._supervisor = Supervisor(workers, encrypts=self._keys is not None)
        self._account = PoolAccount(resend, workers)
        self._workers: list[_Worker] = []
        self._announcement: Iterator[float] | None = None
        self._announce_at = 0.0
        self._stops_seen = 0
        self._stopping_since: float | None = None
        self._hung_up = False
        on_hangup(self._note_hangup)

    def run(self) -> None:
        """Do the whole resend.

        Raises:
            GaplessError: the worst that ended it early; the account is right all the same.
        """
        try:
            for number in range(len(self._supervisor.lives)):
                self._start(number, len(self._supervisor.lives))
            while self._supervisor.phase is not Phase.ENDED:
                self._runtime.pace.follow()
                self._handle(self._messages_of_workers())
                self._handle(self._due_events())
                self._resend.view.advanced(lambda: (self._account.totals, self._account.datagrams))
        finally:
            self._reap()
            self._account.conclude(
                self._runtime.traffic(self._runtime.link), self._keys.announced if self._keys is not None else 0
            )
        self._end()

    def _end(self) -> None:
        supervisor, shutdown = self._supervisor, self._runtime.shutdown
        if not supervisor.is_complete and self._resend.checkpoint is not None:
            try:
                self._resend.checkpoint.rewrite()
                remove_shard_files(self._resend.checkpoint.path)
            except LocalStorageError as error:  # The files of the workers have it.
                supervisor.problems.append(error)
        worst = supervisor.outcome(shutdown.request)
        if supervisor.greeted and (worst is None or isinstance(worst, StoppedError)):
            shutdown.in_batch = True  # The farewell is sent although we are asked to stop.
            self._runtime.say_ended(worst)
        if worst is not None:
            raise worst

    def _start(self, number: int, workers: int) -> None:
        from_worker, to_us = pipe()
        from_us, to_worker = pipe()
        ours = [end for worker in self._workers for end in (worker.inlet, worker.outlet)] + [from_worker, to_worker]
        parent = os.getpid()

        def in_worker() -> None:
            for end in ours:  # Else nobody would notice the end of whoever is behind them.
                end.close()
            run_worker(number, workers, self._runtime, self._resend, from_us, to_us, parent=parent)

        process = multiprocessing.get_context("fork").Process(target=in_worker, daemon=True)
        process.start()
        from_us.close()
        to_us.close()
        self._workers.append(_Worker(process, from_worker, to_worker))

    # ------------------------------------------------------------------------------------------ what happens

    def _messages_of_workers(self) -> Iterator[AnyEvent]:
        """Wait a moment for what workers tell."""
        seconds = _POLL_SECONDS
        if self._announcement is not None:
            seconds = min(max(self._announce_at - time.monotonic(), 0.0), seconds)
        heard = [(number, worker.inlet.fileno()) for number, worker in enumerate(self._workers) if worker.is_heard]
        readable = wait([descriptor for _, descriptor in heard], seconds)
        for number, descriptor in heard:
            if descriptor in readable:
                yield from self._messages_from(number)

    def _messages_from(self, number: int) -> Iterator[AnyEvent]:
        worker = self._workers[number]
        for message in worker.inlet.receive():
            try:
                event = self._event(number, message)
            except GaplessError as error:
                event = Failed(error)
            if event is not None:
                yield event
        if worker.inlet.has_ended:
            worker.is_heard = False
            if not self._supervisor.lives[number].is_over:
                worker.process.join(_STATUS_SECONDS)
                yield WorkerDied(number, worker.process.exitcode)

    def _event(self, number: int, message: Any) -> AnyEvent | None:
        """Take a message into the account, and say what it means to the supervisor."""
        match message:
            case BatchDone():
                self._account.settle(number, message)
            case Ready():
                return WorkerReady(number, self._account.add_partitions(message))
            case Paused():
                return WorkerPaused(number)
            case Exhausted():
                return Event.KEY_DUE
            case Finished(problem, traffic, damaged):
                self._account.traffic[number] = traffic
                self._resend.account.damaged += damaged
                return WorkerFinished(number, problem.error if problem is not None else None)
        return None

    def _due_events(self) -> Iterator[AnyEvent]:
        """What is due, and what signals came."""
        shutdown, supervisor = self._runtime.shutdown, self._supervisor
        while self._stops_seen < shutdown.times:
            self._stops_seen += 1
            yield Event.STOP_ASKED
        if self._hung_up:
            self._hung_up = False
            for worker in self._workers:
                _signal(worker, signal.SIGHUP)
        if supervisor.phase is Phase.STOPPING:
            now = time.monotonic()
            self._stopping_since = self._stopping_since or now
            if now - self._stopping_since > _KILL_SECONDS:
                yield Event.PATIENCE_OVER
        elif self._keys is not None:
            yield from self._about_keys()

    def _about_keys(self) -> Iterator[AnyEvent]:
        assert self._keys is not None  # noqa: S101 -- asked by whoever calls
        try:
            if self._announcement is not None:
                if time.monotonic() < self._announce_at:
                    return
                seconds = next(self._announcement, None)
                if seconds is not None:
                    self._announce_at = time.monotonic() + seconds
                    return
                self._announcement = None
                yield Event.KEY_ANNOUNCED
            elif self._supervisor.phase is Phase.RUNNING:
                duty = self._keys.duty
                if duty is duty.ROTATE:
                    yield Event.KEY_DUE
                elif duty is duty.REANNOUNCE:
                    self._keys.reannounce()
        except GaplessError as error:
            yield Failed(error)

    def _note_hangup(self) -> None:
        self._hung_up = True

    # ------------------------------------------------------------------------------------------ what is done

    def _handle(self, events: Iterator[AnyEvent]) -> None:
        waiting: deque[AnyEvent] = deque()
        for event in events:
            waiting.append(event)
            while waiting:
                for command in self._supervisor.handle(waiting.popleft()):
                    try:
                        self._execute(command)
                    except GaplessError as error:
                        waiting.append(Failed(error))
                        break  # What should have followed must not happen without it.

    def _execute(self, command: Command) -> None:
        worker = self._workers[command.worker] if command.worker is not None else None
        match command.action, worker:
            case Action.GREET, None:
                self._resend.view.begin(self._account.totals)
                self._runtime.say_starting()
            case Action.ANNOUNCE, None if self._keys is not None:
                self._announcement, self._announce_at = self._keys.replacement(), 0.0
            case Action.GO, _Worker():
                _tell(worker, Go(self._keys.key if self._keys is not None and self._supervisor.greeted else None))
            case Action.PAUSE, _Worker():
                _tell(worker, Pause())
            case Action.TERMINATE, _Worker():
                _signal(worker, signal.SIGTERM)
            case Action.KILL, _Worker():
                _signal(worker, signal.SIGKILL)

    def _reap(self) -> None:
        """Have no process left behind."""
        deadline = time.monotonic() + (_FAREWELL_SECONDS if self._supervisor.phase is Phase.ENDED else 0.0)
        for worker in self._workers:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.inlet.close()
            worker.outlet.close()


def _tell(worker: _Worker, message: Any) -> None:
    with suppress(OSError):  # Its death is heard of by the other pipe.
        worker.outlet.send(message)


def _signal(worker: _Worker, number: signal.Signals) -> None:
    if worker.process.is_alive():
        os.kill(worker.process.pid, number)
