"""How far Spark's tasks have read, according to Spark's status tracker; must not know how that is shown.

All tasks that read have about the same number of offsets, so the share of completed tasks is the progress.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.reading.cuts import Cut

_INTERVAL_SECONDS = 0.25


class OffsetCounter(Protocol):
    """Knows the progress of a job."""

    def offsets_read(self) -> int:
        """Return how many offsets were read."""


class SparkReading:
    """The progress of the tasks of one session; queried by a thread that runs next to the job."""

    def __init__(self, cut: Cut) -> None:
        self._offsets = cut.offsets
        self._context: Any = None
        self._read = 0

    def begin(self, spark: SparkSession) -> None:
        """Set the session in which the job runs."""
        self._context = spark.sparkContext

    def offsets_read(self) -> int:
        """Return about how many offsets were read; the previous number if Spark does not answer."""
        context = self._context
        if context is None:
            return 0
        with suppress(Exception):  # the JVM may be ending; the job itself reports a better error
            self._read = max(self._read, self._query(context))
        return self._read

    def _query(self, context: Any) -> int:
        tracker, most = context.statusTracker(), 0
        for job in tracker.getActiveJobsIds():
            job_info = tracker.getJobInfo(job)
            if job_info is None or not job_info.stageIds:
                continue
            first = min(job_info.stageIds)  # reads Kafka; the others read its output
            stage_info = tracker.getStageInfo(first)
            if stage_info is not None and stage_info.numTasks:
                most = max(most, self._offsets * stage_info.numCompletedTasks // stage_info.numTasks)
        return min(most, self._offsets)


@contextmanager
def report_progress(progress: Progress, reading: OffsetCounter) -> Iterator[None]:
    """Report the progress of `reading` while the block runs, in which the job's thread waits for the JVM."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_INTERVAL_SECONDS):
            progress.update(reading.offsets_read)

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
