"""Owns what writes a cycle: Spark's tasks or this process. Spark starts with the first cycle that needs it, and stays.

Must not know what becomes of the manifests.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal, Self

from gapless_kafka.reading.cuts import slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_spark.archiving.archive.tasks import MANIFESTS, manifests_in
from gapless_spark.runtime.failures import translate_spark_errors
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.runtime.spark_progress import SparkReading, report_progress
from gapless_spark.runtime.task_reading import TaskReading

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_archive.segments.level_zero import TopicSegment
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.archiving.archive.tasks import SliceWriter
    from gapless_spark.settings.typed import EngineSettings

FEW_BYTES = 192 * 1024 * 1024
"""About so much is archived in this process with ``engine=auto``, which is over before Spark would have started."""
_BYTES_OF_A_TASK = 32 * 1024 * 1024
"""For less, a task of its own does not pay."""
_TASKS_FOR_EACH_CORE = 2
"""Cores are busy to the end, and few objects are small."""


class CycleEngine:
    """Writes cycles while its ``with`` block lasts."""

    def __init__(self, settings: EngineSettings, connection: KafkaConnection) -> None:
        """Take a command's settings. Raises ConfigurationError when they contradict each other."""
        self._reader = reader_of(settings)
        self._engine = Engine("gapless archive", settings.master, settings.driver_memory)
        self._least_tasks = settings.parallelism
        self._connection = connection
        self._open = contextlib.ExitStack()
        self._spark: Any = None
        self.read_by: Literal["spark", "local"] | None = None
        """What read last; ``None`` for nothing yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def cores(self) -> int:
        """How many tasks run at once, as far as that is known."""
        if self._spark is not None:
            return int(self._spark.sparkContext.defaultParallelism)
        return 1 if self._reader == "local" else os.cpu_count() or 1

    def write(self, cut: Cut, about_bytes: float, writer: SliceWriter, progress: Progress) -> list[TopicSegment]:
        """Read a cut and write it; return the manifests of the segments that cover it.

        Raises:
            GaplessError: it could not be read or written. Objects may be left behind that no commit names.
        """
        few = self._spark is None and about_bytes <= FEW_BYTES
        if self._reader == "local" or (self._reader == "auto" and few):
            self.read_by = "local"
            slices = slices_of(cut)
            return writer.write(slices, read_slices(self._connection, slices, progress))
        self.read_by = "spark"
        if self._spark is None:
            self._spark = self._open.enter_context(session(self._engine))
        most = _TASKS_FOR_EACH_CORE * self.cores
        tasks = self._least_tasks or min(most, max(1, int(about_bytes / _BYTES_OF_A_TASK)))
        task_reading = TaskReading(self._spark, self._connection, cut, tasks, undivided=writer.takes_all_of_a_partition)
        shown = SparkReading(cut)
        shown.begin(self._spark)
        with translate_spark_errors(self._engine), report_progress(progress, shown):
            return manifests_in(task_reading.fold_slices(writer.rows, MANIFESTS).toArrow().to_batches())
