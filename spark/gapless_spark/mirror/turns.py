"""Owns what a task of the Spark engine does: it holds some lanes for a while, copies, and says how far they are then.

Every lane is taken anew in each turn: its former owner is fenced, and the positions are read. So a task that is tried
again, or that a dead program has left behind, neither loses nor repeats anything.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_api.base.errors import GaplessError
from gapless_kafka.mirror.lanes.observations import LanePhase
from gapless_kafka.mirror.workers.worker import Worker
from gapless_spark.runtime.task_reading import encode_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.observations import LaneObservation
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView
    from gapless_kafka.mirror.workers.worker import WorkerObservation

RESULTS = "lanes binary"
"""The column of the rows that come back."""
_TURN_SECONDS = 10.0
_ENDLESS_SECONDS = 1e9
_QUIET_SECONDS = 1.0
"""A turn ends early when nothing was copied for so long: the driver sees when there is something again."""


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """What the tasks of a turn do."""

    setup: LaneSetup
    view: SourceView
    slots: tuple[tuple[int, ...], ...]
    """The lanes of each task."""
    seconds: float
    """How long they are held at most."""


@dataclass(frozen=True, slots=True)
class KnownSources:
    """The source as the driver has seen it."""

    view: SourceView
    error: GaplessError | None = None


@dataclass(frozen=True, slots=True)
class SlotResult:
    """What can be seen of the lanes of a task at its end."""

    lanes: tuple[LaneObservation, ...]
    taken_at: float
    """Of the monotonic clock of the task's machine, on which the times of `lanes` stand."""


def hold_lanes(order: TurnOrder, slot: int) -> SlotResult:
    """Copy in the lanes of a slot until the turn is over.

    Raises:
        TakenOverError: a later run of the mirror has begun.
        GaplessError: what only a user can correct.
    """
    setup = replace(order.setup, limits=order.setup.limits.divided(len(order.slots)))
    pause = _Pause(order.seconds)
    worker = Worker(slot, setup, KnownSources(order.view), on_tick=pause.see)
    worker.run_once(order.slots[slot], pause.is_over)
    return SlotResult(worker.observation().lanes, time.monotonic())


class LaneTurns:
    """Turns in which each task copies in some lanes by itself, as a worker does."""

    def __init__(self, slots: int | None) -> None:
        """`slots` tasks hold the lanes; ``None`` for as many as run at once."""
        self._slots = slots

    def hold(
        self, spark: SparkSession, setup: LaneSetup, view: SourceView, _ends: Mapping[TopicPartition, int]
    ) -> list[SlotResult]:
        """Hold all lanes for some seconds, or with ``once`` until all is copied.

        Raises:
            TakenOverError: a later run of the mirror has begun.
            GaplessError: what only a user can correct.
        """
        slots = divided_lanes(range(setup.lanes), self._slots or int(spark.sparkContext.defaultParallelism))
        order = TurnOrder(setup, view, slots, _ENDLESS_SECONDS if setup.once else _TURN_SECONDS)
        count = len(slots)

        def hold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    for slot in batch.column(0).to_pylist():
                        yield pa.record_batch([[pickle.dumps(hold_lanes(order, slot))]], names=["lanes"])
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None

        rows = spark.range(0, count, 1, count).mapInArrow(hold, RESULTS).toArrow().to_pylist()
        return results_in(rows)


def results_in(rows: Iterable[Mapping[str, Any]]) -> list[SlotResult]:
    """The results in rows of `RESULTS`, which our own tasks have written a moment ago."""
    return [pickle.loads(row["lanes"]) for row in rows]  # noqa: S301


class _Pause:
    """Says when a turn is over."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._records = -1
        self._moved_at = time.monotonic()
        self._is_open = False

    def see(self, seen: WorkerObservation) -> None:
        """Take note of what the lanes do."""
        records = sum(lane.records for lane in seen.lanes)
        self._is_open = all(lane.phase in {LanePhase.COPYING, LanePhase.CLOSED} for lane in seen.lanes)
        if records != self._records or not self._is_open or any(lane.transaction_since for lane in seen.lanes):
            self._records, self._moved_at = records, time.monotonic()

    def is_over(self) -> bool:
        """Whether the lanes are to be given back."""
        now = time.monotonic()
        return now > self._until or (self._is_open and now - self._moved_at > _QUIET_SECONDS)


def on_this_clock(result: SlotResult, now: float) -> tuple[LaneObservation, ...]:
    """The lanes of a result with times of the clock of this machine, for which the task has ended `now`."""
    shift = now - result.taken_at

    def moved(at: float | None) -> float | None:
        return None if at is None else at + shift

    return tuple(
        replace(
            lane,
            tick_at=lane.tick_at + shift,
            transaction_since=moved(lane.transaction_since),
            committed_at=moved(lane.committed_at),
            limited_at=moved(lane.limited_at),
            error=lane.error and replace(lane.error, seen_at=lane.error.seen_at + shift),
            partitions=tuple(
                replace(
                    one,
                    progressed_at=one.progressed_at + shift,
                    error=one.error and replace(one.error, seen_at=one.error.seen_at + shift),
                )
                for one in lane.partitions
            ),
        )
        for lane in result.lanes
    )


def divided_lanes(lanes: Sequence[int], slots: int) -> tuple[tuple[int, ...], ...]:
    """Divide lanes among at most so many tasks, each with about as many."""
    count = max(1, min(slots, len(lanes)))
    return tuple(tuple(lanes[number::count]) for number in range(count))


def view_ends(view: SourceView) -> dict[TopicPartition, int]:
    """The ends of the source partitions as they were when the source was looked at."""
    return {
        (topic.name, partition): end
        for topic in view.topics.values()
        for partition, end in enumerate(topic.end_offsets)
    }
