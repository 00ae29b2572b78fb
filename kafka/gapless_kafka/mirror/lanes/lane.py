"""Owns one lane: it is taken, its partitions are copied in transactions, and it is given back.

Whoever takes a lane fences its former owner first and reads the positions then; so nothing is lost and nothing is
written twice, whoever else is alive. Must not know who assigns lanes.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaException

from gapless_api.base.errors import SourceStalledError
from gapless_kafka.access.errors import reason_in
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.copying import Copying
from gapless_kafka.mirror.lanes.left_open import LEFT_OPEN, MARKER_SECONDS, LeftOpen, TransactionLeftOpenError
from gapless_kafka.mirror.lanes.observations import LaneObservation, LanePhase, SeenError
from gapless_kafka.mirror.lanes.reader import LaneReader
from gapless_kafka.mirror.lanes.records import FLOW, FLOW_KEY, RUN, RUN_KEY, RunRecord, content
from gapless_kafka.mirror.lanes.runs import check_run
from gapless_kafka.mirror.lanes.topic_check import TopicCheck
from gapless_kafka.mirror.lanes.writer import LaneWriter, Reporting
from gapless_kafka.writing.faults import is_fenced
from gapless_kafka.writing.transactions import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.mirror.lanes.commits import CommitInDoubt
    from gapless_kafka.mirror.lanes.control import LaneState
    from gapless_kafka.mirror.lanes.reader import Reader
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView

log = structlog.get_logger("mirror")


class LaneFencedError(Exception):
    """Another producer of the lane has begun: this one writes nothing any more."""


class Lane:
    """One lane of a mirror, in one thread; only `observation` may be called by others."""

    def __init__(  # noqa: PLR0913 -- what names a lane, and how it is run
        self,
        number: int,
        setup: LaneSetup,
        *,
        pulse: Callable[[], None] = lambda: None,
        hurry: Callable[[], bool] = lambda: False,
        reader: Callable[[], Reader] | None = None,
        in_doubt: CommitInDoubt | None = None,
    ) -> None:
        """Nothing is sent before `open`.

        Args:
            number: of the lane.
            setup: what all lanes have in common.
            pulse: called while Kafka is waited for; it may raise to end the work at once, and aborts the transaction.
            hurry: whether a transaction that is open is to be committed now.
            reader: makes what reads in place of a `LaneReader`.
            in_doubt: what is not known of the lane's last commit, if this process had it before.
        """
        self.number = number
        self._setup = setup
        self._outer_pulse = pulse
        self._hurry = hurry
        self._new_reader = reader
        self._opened: ExitStack | None = None
        self._phase = LanePhase.CLOSED
        self._tick_at = time.monotonic()
        self._error: SeenError | None = None
        self._producer: TransactionalProducer | None = None
        self._reporting = Reporting(interleaved=setup.reports_all)
        self.copying = Copying(setup, in_doubt)

    def open(self) -> None:
        """Fence the former owner, and read how far it was.

        Raises:
            LaneFencedError: somebody else opened the lane meanwhile.
            TakenOverError: another run has taken over.
            GaplessError: Kafka denies it or does not answer.
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
                state = self._state()
                if setup.transactional and state.open_from is not None:
                    state = self._settle(writer, state)
                own = self._run
                news = [(RUN_KEY, content(RUN, own))] if check_run(state.run, own) else []
                if self.number == 0 and setup.flow is not None and setup.flow != state.flow:
                    news.append((FLOW_KEY, content(FLOW, setup.flow)))
                if news:
                    writer.begin()
                    for key, value in news:
                        writer.put(key, value)
                    writer.commit()
            except KafkaException as error:
                raise self._failure(error) from None
            reader = self._reader()
            opened.callback(reader.close)
            self.copying.begin(state, reader, writer, TopicCheck(setup.source))
            self._opened = opened.pop_all()
        self._phase = LanePhase.COPYING
        self._error = None

    def check_run(self) -> None:
        """Make sure that the lane went to another owner of this run, after LaneFencedError.

        Raises:
            TakenOverError: another run has taken over.
            GaplessError: Kafka denies it or does not answer.
        """
        check_run(self._state().run, self._run)

    def follow(self, view: SourceView) -> None:
        """Copy the partitions of `view` that belong to the lane, from now on."""
        self.copying.follow(view, self.number)

    def step(self, wait_seconds: float = 0.2) -> bool:
        """Wait for records, and copy them in one transaction.

        Returns:
            Whether something was committed.

        Raises:
            LaneFencedError: the lane has another owner; nothing of this step was written.
            GaplessError: Kafka denies it or does not answer; nothing of this step was written, or it is committed and
                `open` finds it.
        """
        try:
            done = self.copying.step(wait_seconds, self._pulse, self._hurry)
        except KafkaException as error:
            raise self._failure(error) from None
        if done:
            self._error = None
        return done

    def close(self) -> None:
        """Abort what is not committed, and let the connections go."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        self._phase = LanePhase.CLOSED

    def failed(self, error: GaplessError) -> None:
        """Show `error` to observers until the lane works again."""
        seen = self._error
        if seen is None or seen.message != str(error):
            self._error = SeenError(message=str(error), name=seen.name if seen else "", seen_at=time.monotonic())
        self._phase = LanePhase.RETRYING

    def observation(self) -> LaneObservation:
        """What can be seen of the lane; called by other threads, too."""
        return LaneObservation(
            lane=self.number,
            phase=self._phase,
            tick_at=self._tick_at,
            transaction_since=self.copying.transaction_since,
            committed_at=self.copying.committed_at,
            records=self.copying.records,
            bytes=self.copying.bytes,
            error=self._error,
            awaits_view=self.copying.awaits_view,
            limited_at=self.copying.limited_at,
            partitions=tuple(one.observation() for one in list(self.copying.partitions.values())),
        )

    @property
    def _run(self) -> RunRecord:
        """The run that this owner belongs to."""
        return RunRecord(engine=self._setup.engine, epoch=self._setup.epoch)

    def _state(self) -> LaneState:
        """What the control topic holds."""
        setup = self._setup
        return read_lanes(setup.target, setup.identity.control_topic, [self.number], pulse=self._pulse)[self.number]

    def _reader(self) -> Reader:
        if self._new_reader is not None:
            return self._new_reader()
        return LaneReader(self._setup.source, queue_kib=self._setup.memory.queue_kib, complain=self._note)

    def _settle(self, writer: LaneWriter, state: LaneState) -> LaneState:
        """End the former owner's transaction, which Kafka has left open, and read the positions again."""
        left = LeftOpen(self._setup, self.number, state, writer, self._pulse)
        try:
            with closing(self._reader()) as reader:
                left.settle(reader)
            deadline = time.monotonic() + MARKER_SECONDS
            while (settled := self._state()).open_from is not None:
                if time.monotonic() > deadline:
                    raise left.error()
        except TransactionLeftOpenError as error:
            self._error = SeenError(message=str(error), name=LEFT_OPEN, seen_at=time.monotonic())
            raise
        log.warning("transaction settled", lane=self.number, first_offset=state.open_from)
        if self._new_reader is not None:
            raise SourceStalledError(
                f"A transaction of lane {self.number} that Kafka had left open was settled; the next turn continues."
            )
        return settled

    def _pulse(self) -> None:
        self._tick_at = time.monotonic()
        self._outer_pulse()

    def _note(self, error: KafkaError) -> None:
        self._error = SeenError(message=reason_in(error.str()), name=error.name(), seen_at=time.monotonic())

    def _failure(self, error: KafkaException) -> Exception:
        reported: KafkaError = error.args[0]
        self._note(reported)
        if is_fenced(reported):
            return LaneFencedError()
        topic = self._setup.identity.control_topic
        found: Exception = error if self._producer is None else self._producer.error_for(reported, topic)
        return found
