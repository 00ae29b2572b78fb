"""What compares, Spark's tasks or this process, and its progress; must not know what is found."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from gapless_api.base.errors import GaplessError
from gapless_api.cli.reading_progress import Progress, ReadingProgress
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.archiving.verify_copy.plan import Plan, divide_units
from gapless_spark.archiving.verify_copy.unit_result import UnitResult, decode_results, encode_result
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.runtime.spark_progress import SparkReading, report_progress
from gapless_spark.runtime.task_reading import encode_failure

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_spark.archiving.verify_copy.comparing import Comparison
    from gapless_spark.settings.engine import EngineSettings

    ReadBy = Literal["spark", "local"] | None

MAX_LOCAL_OFFSETS = 3_000_000
"""With ``engine=auto``, up to this many offsets of both copies are compared in this process."""
_TASKS_PER_CORE = 3
_MIN_TASK_OFFSETS = 100_000
"""For fewer offsets, another task costs more than it gains."""


def compare_copies(comparison: Comparison, plan: Plan, settings: EngineSettings) -> tuple[list[UnitResult], ReadBy]:
    """Compare all units; return the results by partition and offset, and what has read the copies.

    Raises:
        GaplessError: a copy cannot be read.
    """
    reader = reader_of(settings)
    if not plan.units:
        return [], None
    read_by: ReadBy
    with ReadingProgress("verify-copy", interval_seconds=settings.progress_interval) as progress:
        progress.begin(plan.offsets)
        if reader == "local" or (reader == "auto" and plan.offsets <= MAX_LOCAL_OFFSETS):
            found, read_by = _locally(comparison, plan, progress), "local"
        else:
            found, read_by = _with_spark(comparison, plan, settings, progress), "spark"
    return sorted(found, key=lambda result: (result.partition, result.first)), read_by


def _locally(comparison: Comparison, plan: Plan, progress: Progress) -> list[UnitResult]:
    read = 0
    lock = threading.Lock()

    def on_progress(offsets: int) -> None:
        nonlocal read
        with lock:
            read += offsets
        progress.update(lambda: read)

    return comparison.of(plan.units, on_progress)


def _with_spark(comparison: Comparison, plan: Plan, settings: EngineSettings, progress: Progress) -> list[UnitResult]:
    engine = Engine("gapless verify-copy", settings.master, settings.driver_memory)
    reading = SparkReading(Cut("", (TopicCut("", (0,), (plan.offsets,), 0),)))
    with report_progress(progress, reading), session(engine) as spark:
        most = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
        tasks = settings.parallelism or min(most, max(1, plan.offsets // _MIN_TASK_OFFSETS))
        groups = divide_units(plan, tasks, whole_partitions=comparison.compaction.is_possible)

        def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa  # noqa: PLC0415 -- in the task

            try:
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        texts = [encode_result(result) for result in comparison.of(groups[number])]
                        yield pa.record_batch([pa.array(texts, pa.string())], names=["result"])
            except GaplessError as error:
                raise RuntimeError(encode_failure(error)) from None

        reading.begin(spark)
        with translate_spark_errors(engine):
            found = map_in_arrow(spark.range(0, len(groups), 1, len(groups)), compare, "result string").toArrow()
            return list(decode_results(text for batch in found.to_batches() for text in batch.column(0).to_pylist()))
