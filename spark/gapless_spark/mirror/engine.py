"""Owns the loop of the Spark engine: in one long-lived session, tasks hold all lanes for a turn, and the next one.

A turn is due when the source has something that was not copied. Must not know how a lane copies.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import structlog

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.mirror.workers.worker import WorkerAccount, WorkerObservation
from gapless_spark.mirror.due import Due
from gapless_spark.mirror.ends import SourceEnds
from gapless_spark.mirror.turns import on_this_clock, view_ends
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.observations import LaneObservation
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView
    from gapless_kafka.mirror.workers.source_watch import SourceWatch
    from gapless_spark.mirror.turns import SlotResult
    from gapless_spark.runtime.session import Engine

_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 15.0
"""How long a turn may take to its end when the program is to end; pods are killed 30 seconds after SIGTERM."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
_ONCE_TRIES = 5
log = structlog.get_logger("mirror")


class Turns(Protocol):
    """How the tasks of a turn copy."""

    def hold(
        self, spark: SparkSession, setup: LaneSetup, view: SourceView, ends: Mapping[TopicPartition, int]
    ) -> list[SlotResult]:
        """Hold lanes for a while; what can be seen of them then.

        Raises:
            TakenOverError: a later run of the mirror has begun.
            GaplessError: what only a user can correct, or what passes.
        """


class SparkMirror:
    """The lanes of a mirror in Spark's tasks; all calls are made by one thread."""

    def __init__(
        self,
        engine: Engine,
        setup: LaneSetup,
        sources: SourceWatch,
        turns: Turns,
        *,
        on_tick: Callable[[WorkerObservation], None] = lambda _seen: None,
    ) -> None:
        """Nothing is copied yet, and Spark does not run.

        Args:
            engine: how the session shall be.
            setup: what all lanes have in common.
            sources: the topics to copy, refreshed at least once.
            turns: how tasks hold the lanes.
            on_tick: called several times a second with what can be seen; it must not take long.
        """
        self._engine, self._setup, self._sources = engine, setup, sources
        self._turns = turns
        self._on_tick = on_tick
        self._lanes: dict[int, LaneObservation] = {}
        """As they were at the end of the last turn; counts are of this turn."""
        self._records = self._bytes = self._lost = self._returned = 0
        """In all turns."""
        self._due = Due()

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Copy until `is_stopping`, or until all is copied with ``once``.

        Raises:
            TakenOverError: a later run of the mirror has begun.
            GaplessError: what only a user can correct.
        """
        with session(self._engine) as spark, ThreadPoolExecutor(1, "turn") as thread:
            self._run(spark, thread, is_stopping)

    def observation(self) -> WorkerObservation:
        """What can be seen now."""
        error = self._sources.error
        now = [lane.copied for lane in self._lanes.values()]
        return WorkerObservation(
            worker=0,
            view=self._sources.view,
            source_error=str(error) if error is not None else "",
            lanes=tuple(lane for _, lane in sorted(self._lanes.items())),
            former=WorkerAccount(
                records=self._records - sum(one.records for one in now),
                bytes=self._bytes - sum(one.bytes for one in now),
            ),
        )

    def account(self) -> WorkerAccount:
        """What was copied so far."""
        partitions = [partition for lane in self._lanes.values() for partition in lane.partitions]
        return WorkerAccount(
            records=self._records,
            bytes=self._bytes,
            lost=self._lost,
            returned=self._returned,
            stops=tuple(partition.stop.message for partition in partitions if partition.stop is not None),
        )

    def _run(self, spark: SparkSession, thread: ThreadPoolExecutor, is_stopping: Callable[[], bool]) -> None:
        ends = SourceEnds(self._setup.source)
        once, failures = self._setup.once, 0
        while not is_stopping():
            view = self._sources.view
            reach = view_ends(view) if once else ends.of(view)
            if not self._due.is_behind(reach) and (once or not self._due.is_time(time.monotonic())):
                if once:
                    return
                self._tick()
                time.sleep(_LOOK_SECONDS)
                continue
            try:
                self._turn(spark, thread, reach, is_stopping)
                failures = 0
            except ConfigurationError:
                raise
            except GaplessError as error:
                failures += 1
                if once and failures == _ONCE_TRIES:
                    raise
                self._pause(error, failures - 1, is_stopping)
                self._due.failed(time.monotonic())

    def _pause(self, error: GaplessError, failures: int, is_stopping: Callable[[], bool]) -> None:
        pause = backoff(failures, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
        log.error("mirroring pauses", reason=str(error), again_in_seconds=pause)
        self._sources.refresh_soon()
        until = time.monotonic() + pause
        while time.monotonic() < until and not is_stopping():
            self._tick()
            time.sleep(_LOOK_SECONDS)

    def _turn(
        self,
        spark: SparkSession,
        thread: ThreadPoolExecutor,
        reach: Mapping[TopicPartition, int],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Let tasks hold the lanes for a while; wait for their end. Raises GaplessError."""
        turn = thread.submit(self._held, spark, self._sources.view, reach)
        stop_at: float | None = None
        while not turn.done():
            self._tick()
            time.sleep(_LOOK_SECONDS / 4)
            if is_stopping():
                stop_at = stop_at or time.monotonic() + _PATIENCE_SECONDS
                if time.monotonic() > stop_at or self._setup.once:
                    # What is not committed is aborted by the next owner of the lanes.
                    spark.sparkContext.cancelAllJobs()
        self._take(turn, is_stopping)

    def _take(self, turn: Future[tuple[LaneObservation, ...]], is_stopping: Callable[[], bool]) -> None:
        try:
            lanes = turn.result()
        except (RuntimeError, GaplessError):
            if is_stopping():
                return  # it was cancelled
            raise
        for lane in lanes:
            self._records += lane.copied.records
            self._bytes += lane.copied.bytes
            self._lost += sum(one.lost_now for one in lane.partitions)
            self._returned += sum(one.returned for one in lane.partitions)
            self._lanes[lane.lane] = lane
        self._due.held(lanes, time.monotonic())

    def _held(
        self, spark: SparkSession, view: SourceView, reach: Mapping[TopicPartition, int]
    ) -> tuple[LaneObservation, ...]:
        with translate_spark_errors(self._engine):
            results = self._turns.hold(spark, self._setup, view, reach)
        now = time.monotonic()
        return tuple(lane for result in results for lane in on_this_clock(result, now))

    def _tick(self) -> None:
        """Show what can be seen; that the driver lives is a sign of life of all lanes."""
        seen = self.observation()
        now = time.monotonic()
        self._on_tick(replace(seen, lanes=tuple(replace(lane, tick_at=now) for lane in seen.lanes)))
