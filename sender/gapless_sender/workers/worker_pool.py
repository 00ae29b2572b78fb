"""The processes of a parallel resend, with their pipes and signals, and the account of what they have done.

Must not know how a partition is sent, nor decide anything about workers: `supervisor` does. Workers are forked before
Kafka's client has started any thread; session keys go through their pipes, never through an argument, a file or the
environment. The account is built from the results of single batches, so that it is right however a worker ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError, LocalStorageError, StoppedError
from gapless_api.base.hangup import on_hangup
from gapless_sender.base.shutdown import GRACE_SECONDS
from gapless_sender.replay.checkpoint import remove_shard_files
from gapless_sender.replay.report import Traffic
from gapless_sender.workers.channel import (
    BatchDone,
    Exhausted,
    Finished,
    Go,
    Pause,
    Paused,
    PipeReader,
    PipeWriter,
    Ready,
    pipe,
)
from gapless_sender.workers.partition_work import (
    PartitionWork,
    known_requests,
    partition_work,
    plan_without_kafka,
    sum_totals,
)
from gapless_sender.workers.supervisor import (
    Action,
    AnyEvent,
    Command,
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
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.totals import Totals
    from gapless_sender.link.session_keys import AnnouncedKeys
    from gapless_sender.workers.partition_worker import ResendContext
    from gapless_sender.workers.runtime import SenderRuntime

_POLL_SECONDS = 0.25
_KILL_SECONDS = GRACE_SECONDS + 0.75
"""A worker that was requested to stop is killed after this time; it ends its own batch earlier."""
_EXIT_SECONDS = 0.75
"""The time that a worker gets to exit after its final account."""
_STATUS_SECONDS = 0.25
"""The time to wait for the exit code of a worker whose pipe broke."""


class PoolAccount:
    """What all workers together have planned and done."""

    def __init__(self, resend: ResendContext, workers: int) -> None:
        self.works: dict[TopicPartition, PartitionWork] = {}
        self.traffic = [Traffic() for _ in range(workers)]
        self._resend = resend

    def add_partitions(self, ready: Ready) -> bool:
        """Add the partitions that a worker has planned, and return whether it has work. Raises ConfigurationError."""
        progress = self._resend.progress
        progress.bounds |= ready.bounds
        progress.topic_ids |= ready.topic_ids
        requests = known_requests(self._resend.selection, ready.keys)
        keys = frozenset(ready.keys)
        works = {
            key: partition_work(request, progress) for request in requests if (key := request.partition.key) in keys
        }
        self.works |= works
        self._resend.account.begin(self.totals)
        return any(not work.done for work in works.values())

    def apply(self, worker: int, batch: BatchDone) -> None:
        """Add the result of a batch."""
        self.works[batch.key].account.apply(batch.result)
        self.traffic[worker] = batch.traffic

    @property
    def totals(self) -> Totals:
        """The account of all planned partitions."""
        return sum_totals(self.works.values())

    def traffic_with(self, own: Traffic) -> Traffic:
        """The traffic of the workers and of this process, which counts the drops of the interface."""
        total = Traffic()
        for traffic in (own, *self.traffic):
            total.add(traffic)
        return total

    def finish(self, own: Traffic, interface: str, keys_announced: int) -> None:
        """Complete the account of the resend, with partitions that no worker has planned, as far as they are known."""
        account = self._resend.account
        with suppress(GaplessError):  # A checkpoint that does not fit, which ended the work.
            for work in plan_without_kafka(self._resend.selection, self._resend.progress):
                self.works.setdefault(work.plan.partition.key, work)
        account.partitions = [work.result for _, work in sorted(self.works.items())]
        account.traffic, account.interface = self.traffic_with(own), interface
        account.keys_announced = keys_announced
        self._resend.view.end(self.totals, account.traffic)


@dataclass(slots=True)
class _Worker:
    """A process and the parent's ends of its pipes."""

    process: Any
    reader: PipeReader
    writer: PipeWriter
    is_connected: bool = True
    """Whether it can still send messages."""


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
        """Run the complete resend.

        Raises:
            GaplessError: the worst error that ended it early; the account is right all the same.
        """
        try:
            for number in range(len(self._supervisor.states)):
                self._start(number, len(self._supervisor.states))
            while self._supervisor.phase is not Phase.ENDED:
                self._runtime.pace.follow()
                self._handle(self._messages_of_workers())
                self._handle(self._due_events())
                self._resend.view.update(
                    lambda: (self._account.totals, self._account.traffic_with(self._own_traffic()))
                )
        finally:
            self._reap()
            keys_announced = self._keys.announced if self._keys is not None else 0
            self._account.finish(self._own_traffic(), self._runtime.link.interface_name, keys_announced)
        self._end()

    def _own_traffic(self) -> Traffic:
        return self._runtime.traffic(self._runtime.link, with_interface=True)

    def _end(self) -> None:
        supervisor, shutdown = self._supervisor, self._runtime.shutdown
        if not supervisor.is_complete and self._resend.checkpoint is not None:
            try:
                self._resend.checkpoint.rewrite()
                remove_shard_files(self._resend.checkpoint.path)
            except LocalStorageError as error:  # The progress is still in the files of the workers.
                supervisor.problems.append(error)
        worst = supervisor.outcome(shutdown.request)
        if supervisor.start_announced and (worst is None or isinstance(worst, StoppedError)):
            shutdown.in_batch = True  # The status is sent in spite of the request to stop.
            self._runtime.send_end_status(worst)
        if worst is not None:
            raise worst

    def _start(self, number: int, workers: int) -> None:
        from_worker, to_us = pipe()
        from_us, to_worker = pipe()
        ours = [end for worker in self._workers for end in (worker.reader, worker.writer)] + [from_worker, to_worker]
        parent = os.getpid()

        def in_worker() -> None:
            for end in ours:  # An end that stays open would hide the death of the process behind the other.
                end.close()
            run_worker(number, workers, self._runtime, self._resend, from_us, to_us, parent=parent)

        process = multiprocessing.get_context("fork").Process(target=in_worker, daemon=True)
        process.start()
        from_us.close()
        to_us.close()
        self._workers.append(_Worker(process, from_worker, to_worker))

    # ------------------------------------------------------------------------------------------ events

    def _messages_of_workers(self) -> Iterator[AnyEvent]:
        """Wait a moment for messages of workers."""
        seconds = _POLL_SECONDS
        if self._announcement is not None:
            seconds = min(max(self._announce_at - time.monotonic(), 0.0), seconds)
        pipes = [(number, worker.reader.fileno()) for number, worker in enumerate(self._workers) if worker.is_connected]
        readable = wait([descriptor for _, descriptor in pipes], seconds)
        for number, descriptor in pipes:
            if descriptor in readable:
                yield from self._messages_from(number)

    def _messages_from(self, number: int) -> Iterator[AnyEvent]:
        worker = self._workers[number]
        for message in worker.reader.receive():
            try:
                event = self._event(number, message)
            except GaplessError as error:
                event = Failed(error)
            if event is not None:
                yield event
        if worker.reader.at_end:
            worker.is_connected = False
            if not self._supervisor.states[number].has_ended:
                worker.process.join(_STATUS_SECONDS)
                yield WorkerDied(number, worker.process.exitcode)

    def _event(self, number: int, message: Any) -> AnyEvent | None:
        """Add a message to the account, and return its event for the supervisor."""
        match message:
            case BatchDone():
                self._account.apply(number, message)
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
        """Yield the events of signals and of time."""
        shutdown, supervisor = self._runtime.shutdown, self._supervisor
        while self._stops_seen < shutdown.request_count:
            self._stops_seen += 1
            yield Event.STOP_REQUESTED
        if self._hung_up:
            self._hung_up = False
            for worker in self._workers:
                _signal(worker, signal.SIGHUP)
        if supervisor.phase is Phase.STOPPING:
            now = time.monotonic()
            self._stopping_since = self._stopping_since or now
            if now - self._stopping_since > _KILL_SECONDS:
                yield Event.GRACE_PERIOD_OVER
        elif self._keys is not None:
            yield from self._key_events(self._keys)

    def _key_events(self, keys: AnnouncedKeys) -> Iterator[AnyEvent]:
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
                duty = keys.duty
                if duty is duty.ROTATE:
                    yield Event.KEY_DUE
                elif duty is duty.REANNOUNCE:
                    keys.reannounce()
        except GaplessError as error:
            yield Failed(error)

    def _note_hangup(self) -> None:
        self._hung_up = True

    # ------------------------------------------------------------------------------------------ commands

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
                        break  # The commands after it depend on it.

    def _execute(self, command: Command) -> None:
        worker = self._workers[command.worker] if command.worker is not None else None
        match command.action, worker:
            case Action.ANNOUNCE_START, None:
                self._resend.view.begin(self._account.totals)
                self._runtime.link.begin()
                self._runtime.send_start_status()
            case Action.ANNOUNCE_KEY, None if self._keys is not None:
                self._announcement, self._announce_at = self._keys.replacement(), 0.0
            case Action.GO, _Worker():
                key = self._keys.key if self._keys is not None and self._supervisor.start_announced else None
                _send(worker, Go(key))
            case Action.PAUSE, _Worker():
                _send(worker, Pause())
            case Action.TERMINATE, _Worker():
                _signal(worker, signal.SIGTERM)
            case Action.KILL, _Worker():
                _signal(worker, signal.SIGKILL)

    def _reap(self) -> None:
        """Wait for all processes, and kill those that do not exit."""
        deadline = time.monotonic() + (_EXIT_SECONDS if self._supervisor.phase is Phase.ENDED else 0.0)
        for worker in self._workers:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.reader.close()
            worker.writer.close()


def _send(worker: _Worker, message: Any) -> None:
    with suppress(OSError):  # The other pipe reports the death of the worker.
        worker.writer.send(message)


def _signal(worker: _Worker, number: signal.Signals) -> None:
    if worker.process.is_alive():
        os.kill(worker.process.pid, number)
