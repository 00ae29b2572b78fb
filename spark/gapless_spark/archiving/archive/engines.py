"""Where a cycle runs: in Spark tasks or in this process. Spark starts with the first cycle that needs it.

Must not know how segments are committed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal, Self

from gapless_kafka.reading.cuts import Cut, slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_spark.archiving.archive.tasks import MANIFESTS, SliceWriter, read_manifests
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.runtime.spark_progress import SparkReading, report_progress
from gapless_spark.runtime.task_reading import TaskReading

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_archive.segments.level_zero import TopicSegment
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.settings.engine import EngineSettings

MAX_LOCAL_BYTES = 192 * 1024 * 1024
"""With ``engine=auto``, smaller cycles run in this process, which is quicker than starting Spark."""
_MIN_TASK_BYTES = 32 * 1024 * 1024
_TASKS_PER_CORE = 2
"""Enough to keep all cores busy, and few enough to avoid small objects."""


class CycleEngine:
    """Runs cycles within a ``with`` block."""

    def __init__(self, settings: EngineSettings, connection: KafkaConnection) -> None:
        """Store the settings; nothing is started. Raises ConfigurationError when they contradict each other."""
        self._reader = reader_of(settings)
        self._engine = Engine("gapless archive", settings.master, settings.driver_memory)
        self._parallelism = settings.parallelism
        self._connection = connection
        self._open = contextlib.ExitStack()
        self._spark: Any = None
        self.read_by: Literal["spark", "local"] | None = None
        """Where the last cycle ran; ``None`` before the first one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def cores(self) -> int:
        """How many tasks run concurrently; an estimate before Spark has started."""
        if self._spark is not None:
            return int(self._spark.sparkContext.defaultParallelism)
        return 1 if self._reader == "local" else os.cpu_count() or 1

    def write(self, cut: Cut, estimated_bytes: float, writer: SliceWriter, progress: Progress) -> list[TopicSegment]:
        """Read a cut and write its records; return the segments that cover it.

        Raises:
            GaplessError: Kafka cannot be read, or the archive cannot be written. Uncommitted objects may remain.
        """
        is_small = self._spark is None and estimated_bytes <= MAX_LOCAL_BYTES
        if self._reader == "local" or (self._reader == "auto" and is_small):
            self.read_by = "local"
            slices = slices_of(cut)
            return writer.write(slices, read_slices(self._connection, slices, progress))
        self.read_by = "spark"
        if self._spark is None:
            self._spark = self._open.enter_context(session(self._engine))
        max_tasks = _TASKS_PER_CORE * self.cores
        tasks = self._parallelism or min(max_tasks, max(1, int(estimated_bytes / _MIN_TASK_BYTES)))
        task_reading = TaskReading(
            self._spark, self._connection, cut, tasks, undivided=writer.needs_complete_partitions
        )
        shown = SparkReading(cut)
        shown.begin(self._spark)
        with translate_spark_errors(self._engine), report_progress(progress, shown):
            return read_manifests(task_reading.fold_slices(writer.rows, MANIFESTS).toArrow().to_batches())
