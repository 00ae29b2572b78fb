"""Owns how far Spark's tasks have read, as Spark itself says it beside the job; must not know how that is shown.

Every task that reads has about the same number of offsets, so the share of those tasks that have ended is told.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.reading.cuts import Cut

_LOOK_EVERY_SECONDS = 0.25


class Look(Protocol):
    """Says how far a job is."""

    def look(self) -> int:
        """How many offsets are behind us."""


class SparkReading:
    """What the tasks of one session have read; asked by a thread beside the job."""

    def __init__(self, cut: Cut) -> None:
        self._offsets = cut.offsets
        self._context: Any = None
        self._read = 0

    def begin(self, spark: SparkSession) -> None:
        """Take the session in which the job runs."""
        self._context = spark.sparkContext

    def look(self) -> int:
        """About how many offsets are behind us; what was known before when Spark does not say."""
        context = self._context
        if context is None:
            return 0
        with suppress(Exception):  # Java may be ending; the job itself says so in better words
            self._read = max(self._read, self._ask(context))
        return self._read

    def _ask(self, context: Any) -> int:
        tracker, most = context.statusTracker(), 0
        for job in tracker.getActiveJobsIds():
            job_info = tracker.getJobInfo(job)
            if job_info is None or not job_info.stageIds:
                continue
            first = min(job_info.stageIds)  # reads Kafka; the others get what it writes
            stage_info = tracker.getStageInfo(first)
            if stage_info is not None and stage_info.numTasks:
                most = max(most, self._offsets * stage_info.numCompletedTasks // stage_info.numTasks)
        return min(most, self._offsets)


@contextmanager
def watched(progress: Progress, reading: Look) -> Iterator[None]:
    """Show how far `reading` is while the block runs, in which the job's thread waits for Java."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_LOOK_EVERY_SECONDS):
            progress.update(reading.look)

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
