"""The loop of the Spark engine: turn after turn, tasks in one long-lived session copy all lanes for some seconds.

`due` decides when a turn is due. Must not know how a lane copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_mirror.workers.worker import WorkerObservation, WorkerTotals
from gapless_spark.mirror.due import Due, SourceEnds
from gapless_spark.mirror.turns import LaneTurns, to_local_clock, view_ends
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.session import Engine, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless_mirror.lanes.observations import LaneObservation
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView
    from gapless_mirror.workers.source_watch import SourceWatch

_POLL_SECONDS = 0.2
_STOP_SECONDS = 15.0
"""How long a turn may take to end after a stop request; pods are killed 30 seconds after SIGTERM."""
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0
_MAX_ATTEMPTS_ONCE = 5
log = structlog.get_logger("mirror")


class SparkMirror:
    """The lanes of a mirror, copied by Spark tasks. Not thread-safe."""

    def __init__(
        self,
        engine: Engine,
        setup: LaneSetup,
        sources: SourceWatch,
        turns: LaneTurns,
        *,
        on_tick: Callable[[WorkerObservation], None] = lambda _seen: None,
    ) -> None:
        """Start nothing yet.

        Args:
            engine: of the Spark session.
            setup: what all lanes have in common.
            sources: the topics to copy, refreshed at least once.
            turns: how tasks copy.
            on_tick: called several times a second with an observation; it must not block.
        """
        self._engine, self._setup, self._sources = engine, setup, sources
        self._turns = turns
        self._on_tick = on_tick
        self._lanes: dict[int, LaneObservation] = {}
        """Their states at the end of the last turn, with the counts of that turn."""
        self._records = self._bytes = self._lost = self._returned = 0
        """Totals of all turns."""
        self._due = Due(sources.refresh_seconds)

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Copy until `is_stopping`, or with ``once`` until everything is copied.

        Raises:
            TakenOverError: a later run of the mirror has taken over.
            GaplessError: an error that the user must correct.
        """
        with session(self._engine) as spark, ThreadPoolExecutor(1, "turn") as thread:
            self._run(spark, thread, is_stopping)

    def observation(self) -> WorkerObservation:
        """Return the current state."""
        error = self._sources.error
        last_turn = [lane.copied for lane in self._lanes.values()]
        return WorkerObservation(
            worker=0,
            view=self._sources.view,
            source_error=str(error) if error is not None else "",
            lanes=tuple(lane for _, lane in sorted(self._lanes.items())),
            released=WorkerTotals(
                records=self._records - sum(copied.records for copied in last_turn),
                bytes=self._bytes - sum(copied.bytes for copied in last_turn),
            ),
        )

    def totals(self) -> WorkerTotals:
        """Return what was copied so far."""
        return WorkerTotals(
            records=self._records,
            bytes=self._bytes,
            lost=self._lost,
            returned=self._returned,
            stops=tuple(stop.message for lane in self._lanes.values() for stop in lane.stops),
        )

    def _run(self, spark: SparkSession, thread: ThreadPoolExecutor, is_stopping: Callable[[], bool]) -> None:
        ends = SourceEnds(self._setup.source)
        once, failures = self._setup.once, 0
        while not is_stopping():
            view = self._sources.view
            current = view_ends(view) if once else ends.read(view)
            if not self._due.is_behind(current) and (once or not self._due.is_look_due(view, time.monotonic())):
                if once:
                    return
                self._tick()
                time.sleep(_POLL_SECONDS)
                continue
            try:
                self._turn(spark, thread, view, is_stopping)
                failures = 0
                if once and any(lane.stop is not None for lane in self._lanes.values()):
                    return  # all other lanes have copied what they can
            except ConfigurationError:
                raise
            except GaplessError as error:
                failures += 1
                if once and failures == _MAX_ATTEMPTS_ONCE:
                    raise
                self._pause(error, failures - 1, is_stopping)
                self._due.after_failure(time.monotonic())

    def _pause(self, error: GaplessError, failures: int, is_stopping: Callable[[], bool]) -> None:
        pause = backoff(failures, first=_MIN_PAUSE_SECONDS, longest=_MAX_PAUSE_SECONDS)
        log.error("mirroring pauses", reason=str(error), again_in_seconds=pause)
        self._sources.refresh_soon()
        until = time.monotonic() + pause
        while time.monotonic() < until and not is_stopping():
            self._tick()
            time.sleep(_POLL_SECONDS)

    def _turn(
        self,
        spark: SparkSession,
        thread: ThreadPoolExecutor,
        view: SourceView,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Run a turn, and wait for its end. Raises GaplessError."""
        turn = thread.submit(self._run_turn, spark, view)
        stop_at: float | None = None
        while not turn.done():
            self._tick()
            time.sleep(_POLL_SECONDS / 4)
            if is_stopping():
                stop_at = stop_at or time.monotonic() + _STOP_SECONDS
                if time.monotonic() > stop_at or self._setup.once:
                    # The next owner of the lanes aborts their open transactions.
                    spark.sparkContext.cancelAllJobs()
        self._collect(turn, view, is_stopping)

    def _collect(
        self, turn: Future[tuple[LaneObservation, ...]], view: SourceView, is_stopping: Callable[[], bool]
    ) -> None:
        try:
            lanes = turn.result()
        except (RuntimeError, GaplessError):
            if is_stopping():
                return  # it was cancelled
            raise
        for lane in lanes:
            self._records += lane.copied.records
            self._bytes += lane.copied.bytes
            self._lost += sum(partition.lost_now for partition in lane.partitions)
            self._returned += sum(partition.returned for partition in lane.partitions)
            self._lanes[lane.lane] = lane
            if lane.needs_refresh:
                self._sources.refresh_soon()
        self._due.after_turn(lanes, view, time.monotonic())

    def _run_turn(self, spark: SparkSession, view: SourceView) -> tuple[LaneObservation, ...]:
        with translate_spark_errors(self._engine):
            results = self._turns.run(spark, self._setup, view)
        now = time.monotonic()
        return tuple(lane for result in results for lane in to_local_clock(result, now))

    def _tick(self) -> None:
        """Report the state. All lanes count as active while the driver is."""
        observation = self.observation()
        now = time.monotonic()
        lanes = tuple(replace(lane, tick_at=now) for lane in observation.lanes)
        self._on_tick(replace(observation, lanes=lanes))
