"""What a task of the Spark engine does: it copies some lanes for some seconds, and returns their states.

Each turn opens its lanes again: it fences the previous owner, and reads the positions. So a task that Spark retries, or
that still runs after its driver has died, neither loses nor repeats anything.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_api.base.errors import GaplessError
from gapless_mirror.lanes.observations import LaneObservation, LanePhase
from gapless_mirror.workers.worker import Worker, WorkerObservation
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.task_reading import encode_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView

RESULTS = "lanes binary"
"""The column of the result rows."""
_TURN_SECONDS = 10.0
_ENDLESS_SECONDS = 1e9
_QUIET_SECONDS = 1.0
"""A turn ends early when nothing was copied for this time: the driver checks for new offsets."""


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """The work of the tasks of a turn."""

    setup: LaneSetup
    view: SourceView
    slots: tuple[tuple[int, ...], ...]
    """The lanes of each task."""
    seconds: float
    """The maximum duration of the turn."""


@dataclass(frozen=True, slots=True)
class DriverSources:
    """The view of the source from the driver; implements `Sources`."""

    view: SourceView
    error: GaplessError | None = None


@dataclass(frozen=True, slots=True)
class SlotResult:
    """The states of a task's lanes at its end."""

    lanes: tuple[LaneObservation, ...]
    observed_at: float
    """On the monotonic clock of the task's machine, like the times in `lanes`."""


def copy_slot(order: TurnOrder, slot: int) -> SlotResult:
    """Copy the lanes of a slot until the turn is over.

    Raises:
        TakenOverError: a later run of the mirror has taken over.
        GaplessError: an error that the user must correct.
    """
    setup = replace(order.setup, limits=order.setup.limits.divide(len(order.slots)))
    timer = _TurnTimer(order.seconds)
    worker = Worker(slot, setup, DriverSources(order.view), on_tick=timer.update)
    worker.run_once(order.slots[slot], timer.is_over)
    return SlotResult(worker.observation().lanes, time.monotonic())


class LaneTurns:
    """Turns in which each task copies some lanes like a worker."""

    def __init__(self, slots: int | None) -> None:
        """`slots` is the number of tasks; ``None`` for as many as Spark runs concurrently."""
        self._slots = slots

    def run(self, spark: SparkSession, setup: LaneSetup, view: SourceView) -> list[SlotResult]:
        """Copy all lanes for some seconds, or with ``once`` until everything is copied.

        Raises:
            TakenOverError: a later run of the mirror has taken over.
            GaplessError: an error that the user must correct.
        """
        slots = divide_lanes(range(setup.lanes), self._slots or int(spark.sparkContext.defaultParallelism))
        order = TurnOrder(setup, view, slots, _ENDLESS_SECONDS if setup.once else _TURN_SECONDS)
        count = len(slots)

        def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    for slot in batch.column(0).to_pylist():
                        yield pa.record_batch([[pickle.dumps(copy_slot(order, slot))]], names=["lanes"])
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None

        rows = map_in_arrow(spark.range(0, count, 1, count), copy, RESULTS).toArrow().to_pylist()
        return results_in(rows)


def results_in(rows: Iterable[Mapping[str, Any]]) -> list[SlotResult]:
    """Decode rows of `RESULTS`. They come from our own tasks, so unpickling is safe."""
    return [pickle.loads(row["lanes"]) for row in rows]  # noqa: S301


class _TurnTimer:
    """Decides when a turn is over."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._records = -1
        self._active_at = time.monotonic()
        self._is_open = False

    def update(self, worker: WorkerObservation) -> None:
        """Note whether the lanes are active."""
        records = sum(lane.records for lane in worker.lanes)
        self._is_open = all(lane.phase in {LanePhase.COPYING, LanePhase.CLOSED} for lane in worker.lanes)
        if records != self._records or not self._is_open or any(lane.transaction_since for lane in worker.lanes):
            self._records, self._active_at = records, time.monotonic()

    def is_over(self) -> bool:
        """Whether the lanes must be released."""
        now = time.monotonic()
        return now > self._until or (self._is_open and now - self._active_at > _QUIET_SECONDS)


def to_local_clock(result: SlotResult, now: float) -> tuple[LaneObservation, ...]:
    """Return the lanes of a result with their times on the clock of this machine, on which the task ended at `now`."""
    shift = now - result.observed_at

    def shifted(at: float | None) -> float | None:
        return None if at is None else at + shift

    return tuple(
        replace(
            lane,
            tick_at=lane.tick_at + shift,
            transaction_since=shifted(lane.transaction_since),
            committed_at=shifted(lane.committed_at),
            limited_at=shifted(lane.limited_at),
            error=lane.error and replace(lane.error, seen_at=lane.error.seen_at + shift),
            partitions=tuple(
                replace(
                    partition,
                    progressed_at=partition.progressed_at + shift,
                    error=partition.error and replace(partition.error, seen_at=partition.error.seen_at + shift),
                )
                for partition in lane.partitions
            ),
        )
        for lane in result.lanes
    )


def divide_lanes(lanes: Sequence[int], slots: int) -> tuple[tuple[int, ...], ...]:
    """Divide lanes evenly among at most `slots` tasks."""
    count = max(1, min(slots, len(lanes)))
    return tuple(tuple(lanes[number::count]) for number in range(count))


def view_ends(view: SourceView) -> dict[TopicPartition, int]:
    """Return the ends of the source partitions at the last refresh."""
    return {
        (topic.name, partition): end
        for topic in view.topics.values()
        for partition, end in enumerate(topic.end_offsets)
    }
