"""Owns how a cut is read inside Spark's tasks: every row of a range is the number of some slices, which one task reads.

Must not know what the records mean. The closure that reaches executors holds the paths of secrets and never their
contents: executors read the same files, which are mounted into their pods as into the driver's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ERROR_OUTCOMES, GaplessError
from gapless_kafka.reading.cuts import divided, grouped
from gapless_kafka.reading.reader import read_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut, Slice

    Fold = Callable[[Iterable[list[Message]]], Iterator[pa.RecordBatch]]
    SliceFold = Callable[[tuple[Slice, ...], Iterable[list[Message]]], Iterator[pa.RecordBatch]]

_TASKS_FOR_EACH_CORE = 3
"""So that cores are busy to the end, although some tasks take longer."""
_MOST_OFFSETS = 2_000_000
"""Of one task, so that progress shows and a task that is tried again repeats little."""
_FEWEST_OFFSETS = 20_000
"""For fewer, a consumer of its own does not pay."""
_MARK = "gapless task failed: "
_FAILURE = re.compile(rf"{_MARK}(\{{.*\}})")


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A cut that Spark's tasks can read."""

    spark: SparkSession
    connection: KafkaConnection
    cut: Cut
    least_tasks: int | None = None
    """How many tasks read at least; ``None`` for as many as suit the cores and the cut."""
    undivided: bool = False
    """Whether one task reads all of a partition."""

    def folded(self, fold: Fold, schema: str) -> DataFrame:
        """What `fold` makes of the records, in every task for itself, as rows of `schema`."""
        return self.folded_slices(lambda _, batches: fold(batches), schema)

    def folded_slices(self, fold: SliceFold, schema: str) -> DataFrame:
        """Like `folded`, for a fold that is also told which slices it gets."""
        connection = self.connection
        parts = (grouped if self.undivided else divided)(self.cut, self.tasks)
        count = len(parts)

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from fold(parts[number], read_slices(connection, parts[number]))
            except GaplessError as error:
                raise RuntimeError(text_of(error)) from None

        return self.spark.range(0, count, 1, count).mapInArrow(read, schema)

    @property
    def tasks(self) -> int:
        """How many tasks read."""
        offsets = self.cut.offsets
        for_cores = _TASKS_FOR_EACH_CORE * self.spark.sparkContext.defaultParallelism
        least = self.least_tasks or min(for_cores, max(1, offsets // _FEWEST_OFFSETS))
        return max(least, -(-offsets // _MOST_OFFSETS))


def failure_of_task(text: str) -> GaplessError | None:
    """The error of ours that ended a task, in the text of an exception out of Spark; ``None`` when there is none."""
    found = _FAILURE.search(text)
    if found is None:
        return None
    failure: dict[str, Any] = json.loads(found[1])
    return next(kind for kind in ERROR_OUTCOMES if kind.__name__ == failure["error"])(failure["sentence"])


def text_of(error: GaplessError) -> str:
    """Write `error` so that `failure_of_task` finds it."""
    kind = next(kind for kind in type(error).__mro__ if kind in ERROR_OUTCOMES)
    return _MARK + json.dumps({"error": kind.__name__, "sentence": str(error)})
