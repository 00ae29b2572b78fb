"""How Spark's tasks read a cut: each row of a range is the number of a group of slices, which one task reads.

Must not know what the records mean. The closure that is sent to executors contains the paths of secrets, never their
contents: executors read the same files, which are mounted into their pods and into the driver's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ERROR_OUTCOMES, GaplessError
from gapless_kafka.access.errors import PartitionUnreadableError
from gapless_kafka.reading.cuts import Cut, Slice, distribute_partitions, split_offsets
from gapless_kafka.reading.reader import read_slices
from gapless_spark.runtime.arrow_tasks import map_in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession

    from gapless_kafka.access.connection import KafkaConnection

    Fold = Callable[[Iterable[list[Message]]], Iterator[pa.RecordBatch]]
    SliceFold = Callable[[tuple[Slice, ...], Iterable[list[Message]]], Iterator[pa.RecordBatch]]

_TASKS_PER_CORE = 3
"""Keeps cores busy to the end, although some tasks take longer."""
_MAX_OFFSETS = 2_000_000
"""Of one task, so that progress is visible and a retried task repeats little work."""
_MIN_OFFSETS = 20_000
"""For fewer offsets, another consumer costs more than it gains."""
_MARK = "gapless task failed: "
_FAILURE = re.compile(rf"{_MARK}(\{{.*\}})")


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A cut that Spark's tasks can read."""

    spark: SparkSession
    connection: KafkaConnection
    cut: Cut
    min_tasks: int | None = None
    """The minimum number of tasks; ``None`` to choose it by the cores and the cut."""
    undivided: bool = False
    """Whether each partition is read by one task."""

    def fold(self, fold: Fold, schema: str) -> DataFrame:
        """Fold the records of each task with `fold`, without their headers; return the rows of `schema` it yields."""
        return self.fold_slices(lambda _, batches: fold(batches), schema, headers=False)

    def fold_slices(self, fold: SliceFold, schema: str, *, headers: bool = True) -> DataFrame:
        """Like `fold`, for a function that also takes the slices; it may call `headers` of the records."""
        connection = self.connection
        parts = (distribute_partitions if self.undivided else split_offsets)(self.cut, self.tasks)
        count = len(parts)

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from fold(parts[number], read_slices(connection, parts[number], headers=headers))
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None

        return map_in_arrow(self.spark.range(0, count, 1, count), read, schema)

    @property
    def tasks(self) -> int:
        """The number of tasks that read."""
        offsets = self.cut.offsets
        for_cores = _TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism
        tasks = self.min_tasks or min(for_cores, max(1, offsets // _MIN_OFFSETS))
        return max(tasks, -(-offsets // _MAX_OFFSETS))


def decode_failure(text: str) -> GaplessError | None:
    """Return the GaplessError that ended a task, from the text of an exception of Spark; ``None`` if there is none."""
    match = _FAILURE.search(text)
    if match is None:
        return None
    failure: dict[str, Any] = json.loads(match[1])
    if "at" in failure:
        return PartitionUnreadableError(failure["sentence"], *failure["at"])
    return next(kind for kind in ERROR_OUTCOMES if kind.__name__ == failure["error"])(failure["sentence"])


def encode_failure(error: GaplessError) -> str:
    """Write `error` as a text for `decode_failure`."""
    kind = next(kind for kind in type(error).__mro__ if kind in ERROR_OUTCOMES)
    failure: dict[str, Any] = {"error": kind.__name__, "sentence": str(error)}
    if isinstance(error, PartitionUnreadableError):
        failure["at"] = [error.topic, error.partition, error.offset, error.reason]
    return _MARK + json.dumps(failure)
