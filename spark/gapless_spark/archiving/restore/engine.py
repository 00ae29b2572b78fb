"""What writes the slots of a restore: Spark's tasks or this process; must not know how results are used.

Each slot is one task. Records go from the archive to Kafka inside the task, which returns only counts.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from gapless_api.base.errors import GaplessError
from gapless_spark.archiving.restore.task import PartitionResult, SlotOrder, write_slot
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.runtime.spark_progress import OffsetCounter, report_progress
from gapless_spark.runtime.task_reading import encode_failure

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_spark.settings.engine import EngineSettings

_RESULT_COLUMNS = "work string, result string"


class RestoreEngine:
    """Writes slots inside its ``with`` block. Spark starts with the first slots that need it, and keeps running."""

    def __init__(self, settings: EngineSettings, spark_above: int) -> None:
        """With ``engine=auto``, Spark writes more records than `spark_above`.

        Raises:
            ConfigurationError: settings contradict each other.
        """
        self._writer: Literal["auto", "spark", "local"] = reader_of(settings)
        self._engine = Engine("gapless restore", settings.master, settings.driver_memory)
        self._spark_above = spark_above
        self._slots = settings.parallelism
        self._open = contextlib.ExitStack()
        self._spark: Any = None
        self.written_by: Literal["spark", "local"] | None = None
        """What has written last; ``None`` before that."""

    def __enter__(self) -> Self:
        """Return the engine."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop Spark."""
        self._open.close()

    def slots(self, records: int) -> int:
        """Return the number of slots for `records`."""
        if self._is_local(records):
            return 1
        if self._spark is None:
            self._spark = self._open.enter_context(session(self._engine))
        cores = int(self._spark.sparkContext.defaultParallelism) if self._spark is not None else os.cpu_count() or 1
        return self._slots or cores

    def write(
        self, orders: Sequence[SlotOrder], progress: Progress, counter: OffsetCounter, pulse: Callable[[], None]
    ) -> dict[str, list[PartitionResult]]:
        """Write the slots, whose number comes from `slots`; return the results by work.

        Raises:
            GaplessError: something was not written, for another reason than a damaged archive.
        """
        if self._spark is None:
            self.written_by = "local"
            return _write_here(orders, progress, pulse)
        self.written_by = "spark"
        with translate_spark_errors(self._engine), report_progress(progress, counter):
            return self._write_with_spark(orders)

    def _is_local(self, records: int) -> bool:
        if self._spark is not None:
            return False
        return self._writer == "local" or (self._writer == "auto" and records <= self._spark_above)

    def _write_with_spark(self, orders: Sequence[SlotOrder]) -> dict[str, list[PartitionResult]]:
        count = len(orders)

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        order = orders[number]
                        texts = [json.dumps(asdict(result)) for result in write_slot(order)]
                        yield pa.record_batch([[order.work] * len(texts), texts], names=["work", "result"])
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None

        results: dict[str, list[PartitionResult]] = {}
        rows = map_in_arrow(self._spark.range(0, count, 1, count), write, _RESULT_COLUMNS).toArrow().to_pylist()
        for row in rows:
            results.setdefault(row["work"], []).append(PartitionResult(**json.loads(row["result"])))
        return results


def _write_here(
    orders: Sequence[SlotOrder], progress: Progress, pulse: Callable[[], None]
) -> dict[str, list[PartitionResult]]:
    results: dict[str, list[PartitionResult]] = {}
    written = 0

    def advanced(offsets: int) -> None:
        nonlocal written
        written += offsets
        progress.update(lambda: written)

    for order in orders:
        results.setdefault(order.work, []).extend(write_slot(order, advanced, pulse))
    return results
