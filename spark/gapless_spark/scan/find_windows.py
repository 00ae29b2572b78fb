"""How the windows of a gaps topic are found, with Spark's tasks or in one process, with the same folds.

Must not know how Kafka is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.scan.latest_records import LATEST, LatestOfKeys, latest_of_windows, latest_rows
from gapless_spark.scan.window_kinds import KINDS, WindowKinds, kind_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql import DataFrame

    from gapless_spark.model.gap_windows import ScanOptions, WindowFindings
    from gapless_spark.runtime.task_reading import TaskReading

_MAX_TASK_BYTES = 64 * 1024 * 1024


def find_with_spark(reading: TaskReading, options: ScanOptions) -> WindowFindings:
    """Read a gaps topic with Spark's tasks."""
    if reading.tasks == 1:
        # Without a shuffle, which takes longer than the reading.
        kinds = WindowKinds(with_tombstones=options.infer)
        rows = reading.fold(partial(kinds_of_one_task, with_tombstones=options.infer), KINDS).toArrow()
        if rows.num_rows:
            kinds.add_rows(rows.to_batches())
            return kinds.findings(options)
    return findings_of_rows(reading.fold(latest_rows, LATEST), options)


def findings_of_rows(latest: DataFrame, options: ScanOptions) -> WindowFindings:
    """Combine rows of `LATEST`; Spark shuffles them, so that one task gets all rows of a window, sorted."""
    cores = latest.sparkSession.sparkContext.defaultParallelism
    rows = map_in_arrow(
        latest.repartition(cores, "identity").sortWithinPartitions("identity"),
        partial(kind_rows, with_tombstones=options.infer),
        KINDS,
    )
    kinds = WindowKinds(with_tombstones=options.infer)
    kinds.add_rows(rows.toArrow().to_batches())
    return kinds.findings(options)


def find_in_process(
    batches: Iterable[Sequence[Message]], options: ScanOptions, *, max_bytes: int
) -> WindowFindings | None:
    """Read a gaps topic without Spark; ``None`` if that takes more memory than about `max_bytes`."""
    kinds = _kinds(batches, with_tombstones=options.infer, max_bytes=max_bytes)
    return None if kinds is None else kinds.findings(options)


def kinds_of_one_task(batches: Iterable[Sequence[Message]], *, with_tombstones: bool) -> Iterator[pa.RecordBatch]:
    """Turn all records of a topic into rows of `KINDS`; yield none if that takes too much memory."""
    kinds = _kinds(batches, with_tombstones=with_tombstones, max_bytes=_MAX_TASK_BYTES)
    if kinds is not None:
        yield from kinds.rows()


def _kinds(batches: Iterable[Sequence[Message]], *, with_tombstones: bool, max_bytes: int) -> WindowKinds | None:
    latest = LatestOfKeys()
    for messages in batches:
        latest.add(messages)
        if latest.needs_more_than(max_bytes):
            return None
    kinds = WindowKinds(with_tombstones=with_tombstones)
    for record in latest_of_windows(latest.drain()):
        kinds.add(record)
    return kinds
