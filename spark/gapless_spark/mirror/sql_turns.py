"""Owns a turn through SQL: a task for each lane reads its slices, Spark applies the statement, and the lane writes.

The rows of a lane pass through one task, so each partition keeps its order. The lane is fenced and its positions are
read when it opens, and rows before them are left out: a task that is tried again repeats nothing.
"""

from __future__ import annotations

import pickle
import re
import time
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError
from gapless_archive.segments.rows import runs_of
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.lane import Lane, LaneFencedError
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_spark.mirror.sql_cuts import divided_slices, lane_slices, most_partitions, view_until
from gapless_spark.mirror.sql_reader import SqlReader
from gapless_spark.mirror.transform import ROWS, Transform
from gapless_spark.mirror.turns import RESULTS, SlotResult, results_in
from gapless_spark.runtime.task_reading import decode_failure, encode_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.segments.rows import Run
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceView
    from gapless_kafka.reading.cuts import Slice

_ASK_SECONDS = 30.0
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_RESULT_NAMES = ("topic", "partition", "offset", "at", "key", "value", "headers")
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("at", pa.int64()),
    ]
)
"""`ROWS`, for Arrow."""
_RESULT_SCHEMA = pa.schema([*(_SCHEMA.field(name) for name in _RESULT_NAMES), ("target", pa.string())])
"""`RESULT`, for Arrow."""
_SQL_ERROR = re.compile(r"\[([A-Z_.]+)\][^\n]*SQLSTATE: 22")
"""What Spark says of a value that a function cannot take: a data exception, of class 22."""


@dataclass(frozen=True, slots=True)
class _LaneOrder:
    """What the task of a lane does."""

    lane: int
    slices: tuple[Slice, ...]
    view: SourceView
    setup: LaneSetup
    targets: frozenset[str]
    """To which topics the statement may send records."""


class SqlTurns:
    """Turns through one statement."""

    def __init__(self, statement: str, targets: Sequence[str]) -> None:
        """Nothing is checked before the first turn.

        Args:
            statement: see `Transform`.
            targets: to which topics it may send records; they exist on the target.
        """
        self._statement = statement
        self._targets = frozenset(targets)
        self._transform: Transform | None = None
        self._turns = 0

    def hold(
        self, spark: SparkSession, setup: LaneSetup, view: SourceView, ends: Mapping[TopicPartition, int]
    ) -> list[SlotResult]:
        """Copy a bounded number of records up to `ends`.

        Raises:
            ConfigurationError: the statement cannot be applied, or fails on a record.
            GaplessError: Kafka denies it or does not answer.
        """
        if self._transform is None:
            self._transform = Transform(spark, self._statement)
        if self._transform.routes:
            self._check_targets(setup, view)
        orders = self._orders(setup, view, ends)
        if not orders:
            return []
        try:
            return _copied(spark, self._transform, orders)
        finally:
            self._turns += 1

    def _orders(self, setup: LaneSetup, view: SourceView, ends: Mapping[TopicPartition, int]) -> list[_LaneOrder]:
        states = read_lanes(setup.target, setup.identity.control_topic, range(setup.lanes))
        setup = replace(setup, once=True, reports_all=True)
        found = []
        for lane, state in states.items():
            slices = lane_slices(ends, state.positions, view.places(lane, setup.lanes))
            if slices or not self._turns:  # every lane learns of this run
                found.append(_LaneOrder(lane, slices, view_until(view, slices, 1), setup, self._targets))
        limits = setup.limits.divided(max(len(found), 1))
        return [replace(order, setup=replace(order.setup, limits=limits)) for order in found]

    def _check_targets(self, setup: LaneSetup, view: SourceView) -> None:
        """Make sure that each topic to which records may be sent has their partitions."""
        most = most_partitions(view)
        described = TargetTopics(setup.target, timeout_seconds=_ASK_SECONDS).described(sorted(self._targets))
        for topic in sorted(self._targets):
            found = described.get(topic)
            if found is None or found.partitions < most:
                has = "does not exist" if found is None else f"has {found.partitions} partitions"
                raise ConfigurationError(
                    f"The topic {topic} of transformTopics {has} on the target; records keep their partition, so "
                    f"create it with {most} partitions."
                )


def _copied(spark: SparkSession, transform: Transform, orders: Sequence[_LaneOrder]) -> list[SlotResult]:
    from pyspark.errors import PySparkException  # noqa: PLC0415 -- slow to import

    count = len(orders)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from rows_of(orders[number])
        except GaplessError as error:
            raise RuntimeError(encode_failure(error)) from None

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 -- in the task

        context: Any = TaskContext.get()
        try:
            order = orders[context.partitionId()]
            result = copy_lane(order, chain(batches, beats_of(order)))
        except GaplessError as error:
            raise RuntimeError(encode_failure(error)) from None
        yield pa.record_batch([[pickle.dumps(result)]], names=["lanes"])

    rows = spark.range(0, count, 1, count).mapInArrow(read, ROWS)
    written = transform.apply(rows).mapInArrow(write, RESULTS)
    try:
        return results_in(written.toArrow().to_pylist())
    except PySparkException as error:
        meant = failure_of_statement(str(error))
        if meant is None or decode_failure(str(error)) is not None:
            raise
        raise meant from None


def rows_of(order: _LaneOrder) -> Iterator[pa.RecordBatch]:
    """The records of a lane's slices without heartbeats, as rows of `ROWS`. Raises GaplessError."""
    for run, times in _runs(order.setup, divided_slices(order.slices)[0]):
        stamps = times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        columns = _columns(run)
        yield pa.RecordBatch.from_arrays([*columns[:3], stamps, *columns[3:], times], schema=_SCHEMA)


def beats_of(order: _LaneOrder) -> Iterator[pa.RecordBatch]:
    """The heartbeats of a lane's slices, as rows of `RESULT`: they go past the statement. Raises GaplessError."""
    for run, times in _runs(order.setup, divided_slices(order.slices)[1]):
        columns, targets = _columns(run), pa.nulls(run.rows.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays([*columns[:3], times, *columns[3:], targets], schema=_RESULT_SCHEMA)


def _runs(setup: LaneSetup, slices: Sequence[Slice]) -> Iterator[tuple[Run, pa.Array]]:
    """Records in a row of one partition, with their timestamps in milliseconds."""
    for messages in read_slices(setup.source, slices) if slices else ():
        for run in runs_of(messages):
            yield run, run.rows.column("timestamp")


def _columns(run: Run) -> list[pa.Array]:
    """Topic, partition, offset, key, value and headers."""
    rows = run.rows
    return [
        pa.array([run.topic] * rows.num_rows, pa.string()),
        rows.column("partition"),
        rows.column("offset"),
        rows.column("key"),
        rows.column("value"),
        rows.column("headers").cast(_HEADERS),
    ]


def copy_lane(order: _LaneOrder, rows: Iterator[pa.RecordBatch]) -> SlotResult:
    """Write rows that came out of the statement, and heartbeats, with the positions behind them.

    Raises:
        TakenOverError: a later run of the mirror has begun.
        GaplessError: Kafka denies it or does not answer, or the statement names another topic than it may.
    """
    setup = order.setup
    lane = Lane(order.lane, setup, reader=lambda: SqlReader(rows, order.slices, order.targets, setup.source))
    try:
        lane.open()
        lane.follow(order.view)
        while not lane.copying.is_done or lane.copying.has_moved:
            try:
                lane.step()
            except SourceStalledError:
                _check_refusals(lane)  # for which rows are wanted again
                raise
            _check_refusals(lane)
    except LaneFencedError:
        lane.check_run()
        raise SourceStalledError(f"Another task has lane {order.lane}; the next turn continues.") from None
    finally:
        lane.close()
    return SlotResult((lane.observation(),), time.monotonic())


def _check_refusals(lane: Lane) -> None:
    """End a turn in which the target refuses records: rows cannot be read again to go on without them."""
    for one in lane.observation().partitions:
        if one.stop is not None and one.stop.reason == "TargetRefuses":
            raise SourceStalledError(one.stop.message)


def failure_of_statement(text: str) -> ConfigurationError | None:
    """What the text of an exception out of Spark says about the statement; ``None`` when it is about something else.

    Spark's own words are left out, for they may hold the content of a record.
    """
    found = _SQL_ERROR.search(text)
    if found is None:
        return None
    return ConfigurationError(
        f"The transform fails on a record ({found[1]}); use a function that gives null instead, such as try_cast, or "
        f"leave such records out with WHERE."
    )
