"""How joins run in Spark tasks, one for each group of joins; must not know how they are committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError
from gapless_archive.catalog.entry import SEGMENT, Segment
from gapless_archive.compaction.join import DamagedInput, write_joins
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.task_reading import encode_failure

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.compaction.plan import Join
    from gapless_archive.selection import Selection
    from gapless_spark.runtime.session import Engine

_RESULT = "damaged boolean, text string, input int"


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Joins of one level, and how to open their archive.

    It is sent to an executor, with the paths of secrets but not the secrets.
    """

    selection: Selection
    storage_class: str | None
    """Of the new object; ``None`` for that of the settings."""
    prefix: str
    joins: tuple[Join, ...]
    max_row_group_records: int | None

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Carry out the joins; yield a row for each, with its manifest or the reason of its failure."""
        import pyarrow as pa  # noqa: PLC0415 -- in the task

        for _ in batches:
            place = self.selection.open(storage_class=self.storage_class)
            try:
                results = write_joins(place, self.prefix, self.joins, max_row_group_records=self.max_row_group_records)
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None
            damaged = [isinstance(each, DamagedInput) for each in results]
            texts = [
                each.message if isinstance(each, DamagedInput) else json.dumps(SEGMENT.to_json(each))
                for each in results
            ]
            inputs = [each.index if isinstance(each, DamagedInput) else None for each in results]
            columns = [pa.array(damaged, pa.bool_()), pa.array(texts, pa.string()), pa.array(inputs, pa.int32())]
            yield pa.record_batch(columns, ["damaged", "text", "input"])


class SparkRunner:
    """Runs a Spark task for each group of joins."""

    def __init__(
        self, spark: Any, engine: Engine, task_of: Callable[[str, Sequence[Join]], JoinTask], parallelism: int | None
    ) -> None:
        """Use a session, which stays open.

        Args:
            spark: the session.
            engine: that started the session.
            task_of: returns the task for joins, given the prefix of the topic's objects.
            parallelism: how many tasks run concurrently; ``None`` for the number of cores.
        """
        self._spark, self._engine, self._task_of = spark, engine, task_of
        self.parallelism = parallelism or int(spark.sparkContext.defaultParallelism)

    def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
        """Write the new segments of joins that all have the same level; see `write_joins`."""
        task = self._task_of(prefix, joins)
        with translate_spark_errors(self._engine):
            rows = map_in_arrow(self._spark.range(0, 1, 1, 1), task.rows, _RESULT).collect()
        return [
            DamagedInput(row.text, row.input) if row.damaged else SEGMENT.from_json(json.loads(row.text))
            for row in rows
        ]

    def stop(self) -> None:
        """Cancel all tasks."""
        self._spark.sparkContext.cancelAllJobs()
