"""Owns what one worker process of a parallel resend does: its partitions, when and with which key it is told to.

Must not know the other workers, nor what is decided about them: see `supervisor`.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError
from gapless_api.wire.resend_report import DamagedObject
from gapless_sender.link.udp_link import open_link
from gapless_sender.replay.report import Traffic
from gapless_sender.workers.channel import BatchDone, Exhausted, Finished, Go, Pause, Paused, Ready, WorkerError
from gapless_sender.workers.partition_worker import PartitionWorker

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.replay.account import BatchResult
    from gapless_sender.wire.encryption import SessionKey
    from gapless_sender.workers.channel import Inlet, Outlet
    from gapless_sender.workers.partition_worker import ResendContext
    from gapless_sender.workers.runtime import SenderRuntime

_LOOK_SECONDS = 0.1


class Instructions:
    """What the supervisor tells this worker; the `Keys` of a replay."""

    def __init__(
        self, inlet: Inlet, outlet: Outlet, shutdown: Shutdown, *, given_key: SessionKey | None, sharers: int
    ) -> None:
        """A `given_key` is used instead of those that the supervisor makes; `sharers` workers encrypt with one key."""
        self._inlet = inlet
        self._outlet = outlet
        self._shutdown = shutdown
        self._given_key = given_key
        self._key: SessionKey | None = given_key
        self._sharers = sharers
        self._waits = True
        self._exhaustion_reported = False

    def attend(self) -> None:
        """Take in what has come. For moments without a batch under way: what the supervisor hears is that none is."""
        for message in self._inlet.receive():
            match message:
                case Pause():
                    self._waits = True
                    self.tell(Paused())
                case Go(session_key):
                    self._waits = False
                    self._take_key(session_key)

    def wait_for_go(self) -> None:
        """Return when this worker may send. Raises StoppedError."""
        self.attend()
        while self._waits:
            self._shutdown.check()
            self._inlet.wait(_LOOK_SECONDS)
            self.attend()

    def current(self) -> SessionKey:
        """The key for the next batch; waits while the receiver is given another one. Raises StoppedError."""
        self.wait_for_go()
        assert self._key is not None, "the supervisor sends a key before anything is encrypted"  # noqa: S101
        if not self._exhaustion_reported and self._key.exhausted_among(self._sharers):
            self._exhaustion_reported = True
            self.tell(Exhausted())
        return self._key

    def release(self) -> None:
        """Nothing to do: the supervisor hears of a batch's end when this worker pauses."""

    def tell(self, message: Any) -> None:
        """Tell the supervisor; if it is gone, `Shutdown` finds out, and the checkpoint has everything."""
        with suppress(OSError):
            self._outlet.send(message)

    def _take_key(self, session_key: bytes | None) -> None:
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
    inlet: Inlet,
    outlet: Outlet,
    *,
    parent: int,
) -> None:
    """Do the part with this number; the supervisor decides about the exit code of the resend."""
    runtime.shutdown.follow_parent(parent)
    runtime.pace.leave_to_parent()
    sharers = workers * runtime.shard.count
    instructions = Instructions(inlet, outlet, runtime.shutdown, given_key=runtime.given_key, sharers=sharers)
    problem: WorkerError | None = None
    traffic, damaged = Traffic(), list[DamagedObject]()
    try:
        with closing(open_link(runtime.settings.link, runtime.shutdown, order=runtime.settings.safety.order)) as link:
            try:
                _work(number, workers, runtime, resend, instructions, link, damaged)
            finally:
                traffic = runtime.traffic(link)
    except GaplessError as error:
        problem = WorkerError.of(error)
    instructions.tell(Finished(problem, traffic, tuple(damaged)))


def _work(  # noqa: PLR0913, PLR0917 -- the parts of a worker
    number: int,
    workers: int,
    runtime: SenderRuntime,
    resend: ResendContext,
    instructions: Instructions,
    link: UdpLink,
    damaged: list[DamagedObject],
) -> None:
    def pulse() -> None:
        runtime.shutdown.check()
        instructions.attend()  # Kafka may be silent for a minute, and nobody shall wait so long for our batch.

    def on_batch(key: TopicPartition, result: BatchResult) -> None:
        instructions.tell(BatchDone(key, result, runtime.traffic(link)))

    with PartitionWorker.planned(runtime, resend, number=number, processes=workers, pulse=pulse) as worker:
        instructions.tell(Ready(worker.keys, worker.progress.bounds, worker.progress.topic_ids))
        instructions.wait_for_go()
        try:
            worker.send(link, keys=instructions if runtime.exchange is not None else None, on_batch=on_batch)
        finally:
            damaged += worker.damaged
