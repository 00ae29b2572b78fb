"""One worker process of a parallel resend: it sends its partitions when the supervisor allows, with its key.

Must not know the other workers, nor the decisions about them: see `supervisor`.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError
from gapless_api.wire.resend_report import DamagedObject
from gapless_sender.link.opening import open_link
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
    WorkerError,
)
from gapless_sender.workers.partition_worker import PartitionWorker, ResendContext

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.replay.account import BatchResult
    from gapless_sender.wire.encryption import SessionKey
    from gapless_sender.workers.runtime import SenderRuntime

_POLL_SECONDS = 0.1


class SupervisorChannel:
    """The pipes to the supervisor, and its instructions; the `Keys` of a replay."""

    def __init__(
        self, reader: PipeReader, writer: PipeWriter, shutdown: Shutdown, *, given_key: SessionKey | None, senders: int
    ) -> None:
        """A `given_key` replaces those of the supervisor; `senders` workers encrypt with one key."""
        self._reader = reader
        self._writer = writer
        self._shutdown = shutdown
        self._given_key = given_key
        self._key: SessionKey | None = given_key
        self._senders = senders
        self._is_paused = True
        self._exhaustion_reported = False

    def process_messages(self) -> None:
        """Follow the supervisor's messages. Call it only between batches: `Paused` means that none is being sent."""
        for message in self._reader.receive():
            match message:
                case Pause():
                    self._is_paused = True
                    self.send(Paused())
                case Go(session_key):
                    self._is_paused = False
                    self._use_key(session_key)

    def wait_for_go(self) -> None:
        """Wait until this worker may send events. Raises StoppedError."""
        self.process_messages()
        while self._is_paused:
            self._shutdown.check()
            self._reader.wait(_POLL_SECONDS)
            self.process_messages()

    def current(self) -> SessionKey:
        """Return the key for the next batch, after the announcement of a new one if it is due. Raises StoppedError."""
        self.wait_for_go()
        assert self._key is not None, "the supervisor sends a key before anything is encrypted"  # noqa: S101
        if not self._exhaustion_reported and self._key.exhausted_among(self._senders):
            self._exhaustion_reported = True
            self.send(Exhausted())
        return self._key

    def release(self) -> None:
        """Do nothing: the supervisor learns of the end of a batch when this worker pauses."""

    def send(self, message: Any) -> None:
        """Send a message; if the supervisor has ended, `Shutdown` notices, and the checkpoint has everything."""
        with suppress(OSError):
            self._writer.send(message)

    def _use_key(self, session_key: bytes | None) -> None:
        if session_key is None or self._given_key is not None:
            return
        from gapless_sender.wire.encryption import SessionKey  # noqa: PLC0415 -- slow to load

        if self._key is not None:
            self._key.destroy()
        self._key = SessionKey(session_key)
        self._exhaustion_reported = False


def run_worker(  # noqa: PLR0913, PLR0917 -- the arguments of a process
    number: int,
    workers: int,
    runtime: SenderRuntime,
    resend: ResendContext,
    reader: PipeReader,
    writer: PipeWriter,
    *,
    parent: int,
) -> None:
    """Do the share of worker `number`; the supervisor decides about the exit code of the resend."""
    runtime.shutdown.follow_parent(parent)
    runtime.pace.leave_to_parent()
    senders = workers * runtime.shard.count
    supervisor = SupervisorChannel(reader, writer, runtime.shutdown, given_key=runtime.given_key, senders=senders)
    problem: WorkerError | None = None
    traffic, damaged = Traffic(), list[DamagedObject]()
    try:
        with closing(open_link(runtime.settings.link, runtime.shutdown, order=runtime.settings.safety.order)) as link:
            try:
                _work(number, workers, runtime, resend, supervisor, link, damaged)
            finally:
                traffic = runtime.traffic(link)
    except GaplessError as error:
        problem = WorkerError.of(error)
    supervisor.send(Finished(problem, traffic, tuple(damaged)))


def _work(  # noqa: PLR0913, PLR0917 -- the parts of a worker
    number: int,
    workers: int,
    runtime: SenderRuntime,
    resend: ResendContext,
    supervisor: SupervisorChannel,
    link: UdpLink,
    damaged: list[DamagedObject],
) -> None:
    def pulse() -> None:
        runtime.shutdown.check()
        supervisor.process_messages()  # Kafka may be silent for a minute, and a pause must not wait for it.

    def on_batch(key: TopicPartition, result: BatchResult) -> None:
        supervisor.send(BatchDone(key, result, runtime.traffic(link)))

    with PartitionWorker.planned(runtime, resend, number=number, processes=workers, pulse=pulse) as worker:
        supervisor.send(Ready(worker.keys, worker.progress.bounds, worker.progress.topic_ids))
        supervisor.wait_for_go()
        try:
            worker.send(link, keys=supervisor if runtime.exchange is not None else None, on_batch=on_batch)
            link.settle_replies()
        finally:
            damaged += worker.damaged
