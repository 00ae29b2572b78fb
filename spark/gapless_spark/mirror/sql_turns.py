"""Owns a turn through SQL: a task for each lane reads its slices, Spark applies the statement, and the lane writes.

The rows of a lane pass through one task, so each partition keeps its order. A lane fences previous owners and reads its
positions when it opens, and skips rows before them, so a task that Spark retries repeats nothing.
"""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError
from gapless_archive.segments.rows import PartitionRows, rows_by_partition, with_header_keys
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.control import read_lanes
from gapless_mirror.lanes.lane import Lane, LaneFencedError
from gapless_mirror.lanes.refusals import TARGET_REFUSES
from gapless_mirror.lanes.unexpected import COPY_FAILED
from gapless_spark.mirror.sql_cuts import lane_slices, max_partitions, positions_beyond, split_heartbeats, view_until
from gapless_spark.mirror.sql_reader import SqlReader, epochs_at
from gapless_spark.mirror.transform import ROWS, Transform
from gapless_spark.mirror.turns import RESULTS, SlotResult, results_in
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.task_reading import decode_failure, encode_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.reading.cuts import Slice
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView

_TIMEOUT_SECONDS = 30.0
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
"""Spark's message for a value that a function cannot handle: a data exception, SQLSTATE class 22."""

_FAILED_TASK = re.compile(r"Task ([0-9]+) in stage")
_SHOWN = 3
"""How many partitions a message names."""


@dataclass(frozen=True, slots=True)
class _LaneOrder:
    """The work of the task of a lane."""

    lane: int
    slices: tuple[Slice, ...]
    view: SourceView
    setup: LaneSetup
    targets: frozenset[str]
    """The topics to which the statement may send records."""


class SqlTurns:
    """Turns that apply one statement."""

    shows_errors = False

    def __init__(self, statement: str, targets: Sequence[str]) -> None:
        """Check nothing before the first turn.

        Args:
            statement: see `Transform`.
            targets: the topics to which it may send records.
        """
        self._statement = statement
        self._targets = frozenset(targets)
        self._transform: Transform | None = None
        self._looked_with: int | None = None
        """The number of the view with which every lane was opened last."""

    def run(
        self, spark: SparkSession, setup: LaneSetup, view: SourceView, ends: Mapping[TopicPartition, int]
    ) -> list[SlotResult]:
        """Copy a bounded number of records up to `ends`.

        Raises:
            ConfigurationError: the statement cannot be applied, or fails on a record.
            GaplessError: Kafka denies access or does not answer.
        """
        if self._transform is None:
            self._transform = Transform(spark, self._statement)
        if self._transform.routes:
            self._check_targets(setup, view)
        orders = self._orders(setup, view, ends)
        if not orders:
            return []
        results = _copy_lanes(spark, self._transform, orders)
        self._looked_with = view.number
        return results

    def _orders(self, setup: LaneSetup, view: SourceView, ends: Mapping[TopicPartition, int]) -> list[_LaneOrder]:
        states = read_lanes(setup.target, setup.identity.control_topic, range(setup.lanes))
        setup = replace(setup, once=True, reports_all=True)
        orders = []
        for lane, state in states.items():
            slices = lane_slices(ends, state.positions, view.lane_partitions(lane, setup.lanes))
            beyond = positions_beyond(ends, state.positions, view.lane_partitions(lane, setup.lanes))
            # The first turn records the run in every lane; later ones look whether both clusters are what they were.
            if slices or beyond or view.number != self._looked_with:
                orders.append(_LaneOrder(lane, slices, view_until(view, slices, 1, beyond), setup, self._targets))
        limits = setup.limits.divide(max(len(orders), 1))
        return [replace(order, setup=replace(order.setup, limits=limits)) for order in orders]

    def _check_targets(self, setup: LaneSetup, view: SourceView) -> None:
        """Check that each topic to which records may be sent has enough partitions."""
        needed = max_partitions(view)
        described = TargetTopics(setup.target, timeout_seconds=_TIMEOUT_SECONDS).describe(sorted(self._targets))
        for topic in sorted(self._targets):
            target = described.get(topic)
            if target is None or target.partitions < needed:
                has = "does not exist" if target is None else f"has {target.partitions} partitions"
                raise ConfigurationError(
                    f"The topic {topic} of transformTopics {has} on the target; records keep their partition, so "
                    f"create it with {needed} partitions."
                )


def _copy_lanes(spark: SparkSession, transform: Transform, orders: Sequence[_LaneOrder]) -> list[SlotResult]:
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
            result = copy_lane(order, chain(batches, heartbeat_rows(order)))
        except GaplessError as error:
            raise RuntimeError(encode_failure(error)) from None
        yield pa.record_batch([[pickle.dumps(result)]], names=["lanes"])

    rows = map_in_arrow(spark.range(0, count, 1, count), read, ROWS)
    written = map_in_arrow(transform.apply(rows), write, RESULTS)
    try:
        return results_in(written.toArrow().to_pylist())
    except PySparkException as error:
        failure = statement_failure(str(error), orders)
        if failure is None or decode_failure(str(error)) is not None:
            raise
        raise failure from None


def rows_of(order: _LaneOrder) -> Iterator[pa.RecordBatch]:
    """Read a lane's slices without heartbeats, as rows of `ROWS`. Raises GaplessError."""
    for run, times in _runs(order.setup, split_heartbeats(order.slices)[0]):
        stamps = times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        columns = _columns(run)
        yield pa.RecordBatch.from_arrays([*columns[:3], stamps, *columns[3:], times], schema=_SCHEMA)


def heartbeat_rows(order: _LaneOrder) -> Iterator[pa.RecordBatch]:
    """Read the heartbeats of a lane's slices, as rows of `RESULT`: they bypass the statement. Raises GaplessError."""
    for run, times in _runs(order.setup, split_heartbeats(order.slices)[1]):
        columns, targets = _columns(run), pa.nulls(run.rows.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays([*columns[:3], times, *columns[3:], targets], schema=_RESULT_SCHEMA)


def _runs(setup: LaneSetup, slices: Sequence[Slice]) -> Iterator[tuple[PartitionRows, pa.Array]]:
    """Read consecutive records of one partition, with their timestamps in milliseconds."""
    for messages in read_slices(setup.source, slices) if slices else ():
        for run in rows_by_partition(messages):
            yield run, run.rows.column("timestamp")


def _columns(run: PartitionRows) -> list[pa.Array]:
    """Return topic, partition, offset, key, value and headers."""
    rows = run.rows
    return [
        pa.array([run.topic] * rows.num_rows, pa.string()),
        rows.column("partition"),
        rows.column("offset"),
        rows.column("key"),
        rows.column("value"),
        # In Spark they are strings; it does not check that the bytes are UTF-8.
        with_header_keys(rows.column("headers"), pa.string()),
    ]


def copy_lane(order: _LaneOrder, rows: Iterator[pa.RecordBatch]) -> SlotResult:
    """Write the results of the statement, and heartbeats, with the new positions.

    Raises:
        TakenOverError: a later run of the mirror has taken over.
        GaplessError: Kafka denies access or does not answer, or the statement names a topic that is not allowed.
    """
    setup = order.setup

    def reader() -> SqlReader:
        return SqlReader(rows, order.slices, order.targets, setup.source, partial(epochs_at, setup.source))

    lane = Lane(order.lane, setup, reader=reader)
    try:
        lane.open()
        lane.follow(order.view)
        while not lane.copier.is_done or lane.copier.has_moved:
            try:
                lane.step()
            except SourceStalledError:
                _check_refusals(lane, (TARGET_REFUSES, COPY_FAILED))  # the cause, if rows have to be read again
                raise
            _check_refusals(lane, (TARGET_REFUSES,))
            if lane.copier.needs_refresh:
                raise SourceStalledError(
                    "A topic was deleted or recreated during the turn; the topics are read again, then the next turn "
                    "continues."
                )
    except LaneFencedError:
        lane.check_run()
        raise SourceStalledError(f"Another task has lane {order.lane}; the next turn continues.") from None
    finally:
        lane.close()
    return SlotResult((lane.observation(),), time.monotonic())


def _check_refusals(lane: Lane, reasons: Container[str]) -> None:
    """End a turn in which records are not written: rows cannot be read again to continue without them."""
    for partition in lane.observation().partitions:
        if partition.stop is not None and partition.stop.reason in reasons:
            raise SourceStalledError(partition.stop.message)


def statement_failure(text: str, orders: Sequence[_LaneOrder] = ()) -> ConfigurationError | None:
    """Return the error if an exception text of Spark is about the statement, otherwise ``None``.

    The text itself is not shown, because it may contain the content of a record.
    """
    match = _SQL_ERROR.search(text)
    if match is None:
        return None
    return ConfigurationError(
        f"The transform fails on a record{_records_of_task(text, orders)} ({match[1]}); use a function that returns "
        f"null instead, such as try_cast, or leave such records out with WHERE."
    )


def _records_of_task(text: str, orders: Sequence[_LaneOrder]) -> str:
    """Return the offsets that the failed task has read, for a message."""
    match = _FAILED_TASK.search(text)
    if match is None or int(match[1]) >= len(orders):
        return ""
    slices = split_heartbeats(orders[int(match[1])].slices)[0]
    shown = [
        f"{each.topic}/{each.partition} {each.first_offset:,} to {each.end_offset - 1:,}" for each in slices[:_SHOWN]
    ]
    more = f" and of {len(slices) - _SHOWN:,} partitions more" if len(slices) > _SHOWN else ""
    return f" among those of {', '.join(shown)}{more}" if shown else ""
