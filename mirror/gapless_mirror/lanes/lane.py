"""One lane: it is opened, its partitions are copied in transactions, and it is closed.

`open` fences the previous owner and then reads the positions, so nothing is lost or written twice even if the previous
owner still runs. Must not know who assigns lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaError, KafkaException

from gapless_kafka.access.errors import reason_in
from gapless_kafka.writing.faults import is_fenced
from gapless_kafka.writing.positions import content
from gapless_kafka.writing.transactions import TransactionalProducer
from gapless_mirror.lanes.control import LaneState, read_lanes
from gapless_mirror.lanes.copying import LaneCopier
from gapless_mirror.lanes.hanging_transaction import (
    HANGING_TRANSACTION,
    MARKER_SECONDS,
    HangingTransaction,
    HangingTransactionError,
)
from gapless_mirror.lanes.mark import write_mark
from gapless_mirror.lanes.observations import LaneObservation, LanePhase, SeenError, Stop
from gapless_mirror.lanes.reader import LaneReader, Reader
from gapless_mirror.lanes.records import FLOW, FLOW_KEY, LAYOUT, LAYOUT_KEY, RUN, RUN_KEY, LayoutRecord, RunRecord
from gapless_mirror.lanes.runs import check_run
from gapless_mirror.lanes.topic_check import TopicCheck
from gapless_mirror.lanes.transformed import TransformedReader
from gapless_mirror.lanes.unexpected import COPY_FAILED
from gapless_mirror.lanes.writer import LaneWriter, Reporting
from gapless_mirror.sql.evaluation import Evaluation

if TYPE_CHECKING:
    from gapless_api.base.errors import GaplessError
    from gapless_mirror.lanes.commits import UnconfirmedCommit
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView

log = structlog.get_logger("mirror")


class LaneFencedError(Exception):
    """A newer producer has fenced this one, which can no longer write."""


class Lane:
    """One lane of a mirror. Not thread-safe, except for `observation`."""

    def __init__(
        self,
        number: int,
        setup: LaneSetup,
        *,
        pulse: Callable[[], None] = lambda: None,
        must_commit: Callable[[], bool] = lambda: False,
        unconfirmed: UnconfirmedCommit | None = None,
    ) -> None:
        """Kafka is not called before `open`.

        Args:
            number: of the lane.
            setup: what all lanes have in common.
            pulse: called while waiting for Kafka; it may raise to stop at once, which aborts the transaction.
            must_commit: whether an open transaction must be committed now.
            unconfirmed: of the lane's last owner in this process.
        """
        self.number = number
        self._setup = setup
        self._outer_pulse = pulse
        self._must_commit = must_commit
        self._opened: ExitStack | None = None
        self._phase = LanePhase.CLOSED
        self._tick_at = time.monotonic()
        self._error: SeenError | None = None
        self._stop: Stop | None = None
        self._producer: TransactionalProducer | None = None
        self._reporting = Reporting(interleaved=setup.transform is not None and bool(setup.transform.targets))
        self.copier = LaneCopier(setup, unconfirmed)

    def open(self) -> None:
        """Fence the previous owner, and read its committed positions.

        Raises:
            LaneFencedError: another owner has opened the lane meanwhile.
            TakenOverError: a later run has taken over.
            GaplessError: Kafka denies access or does not answer.
        """
        setup, identity = self._setup, self._setup.identity
        self.close()
        self._phase = LanePhase.OPENING
        with ExitStack() as opened:
            producer = TransactionalProducer(
                setup.target,
                identity.transactional_id(self.number) if setup.transactional else None,
                setup.producer,
                pulse=self._pulse,
            )
            self._producer = producer
            try:
                opened.enter_context(producer)
                writer = LaneWriter(producer, identity.control_topic, self.number, setup.provenance, self._reporting)
                state = self._state(self._write_mark())
                if setup.transactional and state.open_from is not None:
                    state = self._resolve_hanging(writer, state)
                own = self._run
                changed = [(RUN_KEY, content(RUN, own))] if check_run(state.run, own) else []
                if self.number == 0 and state.layout is None:
                    changed.append((LAYOUT_KEY, content(LAYOUT, LayoutRecord(lanes=setup.lanes))))
                if self.number == 0 and setup.flow is not None and setup.flow != state.flow:
                    changed.append((FLOW_KEY, content(FLOW, setup.flow)))
                if changed:
                    writer.begin()
                    for key, value in changed:
                        writer.put(key, value)
                    writer.commit()
            except KafkaException as error:
                raise self._translate(error) from None
            reader = self._reader()
            opened.callback(reader.close)
            self.copier.begin(state, reader, writer, TopicCheck(setup.source), TopicCheck(setup.target))
            self._opened = opened.pop_all()
        self._phase = LanePhase.COPYING
        self._error = None

    def check_run(self) -> None:
        """After LaneFencedError, check that the new owner belongs to this run.

        Raises:
            TakenOverError: it belongs to a later run.
            GaplessError: Kafka denies access or does not answer.
        """
        check_run(self._state(self._write_mark()).run, self._run)

    def follow(self, view: SourceView) -> None:
        """From now on, copy the partitions of `view` that belong to the lane."""
        try:
            self.copier.follow(view, self.number, self._pulse)
        except KafkaException as error:
            raise self._translate(error) from None

    def step(self, wait_seconds: float = 0.2) -> bool:
        """Wait for records, and copy them in one transaction.

        Returns:
            Whether a transaction was committed.

        Raises:
            LaneFencedError: the lane has another owner; nothing of this step was written.
            GaplessError: Kafka denies access or does not answer. Nothing of this step was written, or the commit is
                unconfirmed and `open` finds out.
        """
        try:
            is_committed = self.copier.step(wait_seconds, self._pulse, self._must_commit)
        except KafkaException as error:
            raise self._translate(error) from None
        if is_committed:
            self._error = None
        return is_committed

    def close(self) -> None:
        """Abort the open transaction, and close the connections."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        self._phase = LanePhase.CLOSED

    def note_failure(self, error: GaplessError) -> None:
        """Show `error` to observers until the next commit."""
        seen = self._error
        if seen is None or seen.message != str(error):
            self._error = SeenError(message=str(error), name=seen.name if seen else "", seen_at=time.monotonic())
        self._phase = LanePhase.RETRYING

    def note_unexpected(self, message: str, *, is_final: bool) -> None:
        """Show an exception that no rule expects to observers: until the lane is open again, or as its stop."""
        self._error = SeenError(message=message, name=COPY_FAILED, seen_at=time.monotonic())
        self._phase = LanePhase.RETRYING
        if is_final:
            self._stop = Stop(reason=COPY_FAILED, message=message)

    def observation(self) -> LaneObservation:
        """Return the state of the lane; other threads may call this.

        A commit may end meanwhile: the totals, which are read last, count at least what the positions count.
        """
        partitions = tuple(partition.observation() for partition in list(self.copier.partitions.values()))
        return LaneObservation(
            lane=self.number,
            phase=self._phase,
            tick_at=self._tick_at,
            transaction_since=self.copier.transaction_since,
            committed_at=self.copier.committed_at,
            records=self.copier.records,
            bytes=self.copier.bytes,
            error=self._error,
            needs_refresh=self.copier.needs_refresh,
            limited_at=self.copier.limited_at,
            stop=self._stop,
            partitions=partitions,
        )

    @property
    def _run(self) -> RunRecord:
        """The run of this process."""
        return RunRecord(engine=self._setup.engine, epoch=self._setup.epoch)

    def _write_mark(self) -> int:
        """Write a mark, and return its offset: the states that earlier owners have committed are before it."""
        setup = self._setup
        return write_mark(setup.target, setup.identity.control_topic, self.number, pulse=self._pulse)

    def _state(self, mark: int) -> LaneState:
        """Read the state of the lane from the control topic, at least up to a mark."""
        setup, number = self._setup, self.number
        topic = setup.identity.control_topic
        return read_lanes(setup.target, topic, [number], behind={number: mark}, pulse=self._pulse)[number]

    def _reader(self) -> Reader:
        """Return the reader of the records to copy. Raises GaplessError if their SQL cannot be evaluated."""
        queue_kib, transform = self._setup.memory.queue_kib, self._setup.transform
        reader = LaneReader(self._setup.source, queue_kib=queue_kib, on_error=self._note_error)
        if transform is None:
            return reader
        try:
            return TransformedReader(reader, Evaluation(transform, pulse=self._pulse))
        except BaseException:
            reader.close()
            raise

    def _resolve_hanging(self, writer: LaneWriter, state: LaneState) -> LaneState:
        """End the previous owner's hanging transaction, and read the state of the lane again."""
        transaction = HangingTransaction(self._setup, self.number, state, writer, self._pulse)
        try:
            with closing(self._reader()) as reader:
                transaction.resolve(reader)
            mark = self._write_mark()
            deadline = time.monotonic() + MARKER_SECONDS
            while (resolved := self._state(mark)).open_from is not None:
                if time.monotonic() > deadline:
                    raise transaction.error()
        except HangingTransactionError as error:
            self._error = SeenError(message=str(error), name=HANGING_TRANSACTION, seen_at=time.monotonic())
            raise
        log.warning("transaction settled", lane=self.number, first_offset=state.open_from)
        return resolved

    def _pulse(self) -> None:
        self._tick_at = time.monotonic()
        self._outer_pulse()

    def _note_error(self, error: KafkaError) -> None:
        self._error = SeenError(message=reason_in(error.str()), name=error.name(), seen_at=time.monotonic())

    def _translate(self, error: KafkaException) -> Exception:
        """Return the error of this module, or of the project, for one of Kafka's."""
        reported: KafkaError = error.args[0]
        self._note_error(reported)
        if is_fenced(reported):
            return LaneFencedError()
        topic = self._setup.identity.control_topic
        translated: Exception = error if self._producer is None else self._producer.error_for(reported, topic)
        return translated
