"""Owns the ways to the windows of a gaps topic, by Spark's tasks and in one process, over the same folds.

Must not know how Kafka is read.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gapless_spark.scan.latest_records import LATEST, LatestOfKeys, latest_of_windows, latest_rows
from gapless_spark.scan.window_kinds import KINDS, WindowKinds, kind_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql import DataFrame

    from gapless_spark.model.gap_windows import ScanOptions, WindowFindings
    from gapless_spark.runtime.task_reading import TaskReading

_MOST_BYTES_OF_ONE_TASK = 64 * 1024 * 1024


def find_with_spark(reading: TaskReading, options: ScanOptions) -> WindowFindings:
    """Find out what the records of a gaps topic say together, with Spark."""
    if reading.tasks == 1:
        # Without an exchange between tasks, which takes longer than the reading.
        kinds = WindowKinds(with_tombstones=options.infer)
        rows = reading.fold(partial(kinds_of_one_task, with_tombstones=options.infer), KINDS).toArrow()
        if rows.num_rows:
            kinds.add_rows(rows.to_batches())
            return kinds.findings(options)
    return joined_findings(reading.fold(latest_rows, LATEST), options)


def joined_findings(latest: DataFrame, options: ScanOptions) -> WindowFindings:
    """The same of rows of `LATEST`, of all tasks: those of a window meet in one task, which sorts them on disk."""
    cores = latest.sparkSession.sparkContext.defaultParallelism
    found = (
        latest.repartition(cores, "identity")
        .sortWithinPartitions("identity")
        .mapInArrow(partial(kind_rows, with_tombstones=options.infer), KINDS)
    )
    kinds = WindowKinds(with_tombstones=options.infer)
    kinds.add_rows(found.toArrow().to_batches())
    return kinds.findings(options)


def find_in_process(
    batches: Iterable[Sequence[Message]], options: ScanOptions, *, most_bytes: int
) -> WindowFindings | None:
    """Find out the same without Spark; ``None`` when about more than `most_bytes` would have to be held."""
    kinds = _kinds(batches, with_tombstones=options.infer, most_bytes=most_bytes)
    return None if kinds is None else kinds.findings(options)


def kinds_of_one_task(batches: Iterable[Sequence[Message]], *, with_tombstones: bool) -> Iterator[pa.RecordBatch]:
    """Turn all records of a topic into rows of `KINDS`; there are none when too much would have to be held."""
    kinds = _kinds(batches, with_tombstones=with_tombstones, most_bytes=_MOST_BYTES_OF_ONE_TASK)
    if kinds is not None:
        yield from kinds.rows()


def _kinds(batches: Iterable[Sequence[Message]], *, with_tombstones: bool, most_bytes: int) -> WindowKinds | None:
    held = LatestOfKeys()
    for messages in batches:
        held.add(messages)
        if held.needs_more_than(most_bytes):
            return None
    kinds = WindowKinds(with_tombstones=with_tombstones)
    for latest in latest_of_windows(held.taken()):
        kinds.add(latest)
    return kinds
