"""Owns how far Spark's tasks have read, as Spark itself says it beside the job; must not know how that is shown.

Spark tells how many records the tasks of a stage have read, by their heartbeats, and how many tasks have ended. Records
are at most as many as offsets, and in a compacted topic far fewer; where the tasks have about the same number of
offsets, the share of those that have ended says more then.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from gapless_api.cli.reading_progress import Progress
    from gapless_spark.runtime.kafka_source import Cut

_LOOK_EVERY_SECONDS = 0.25


class SparkReading:
    """What the tasks of one session have read; asked by a thread beside the job."""

    def __init__(self, cut: Cut, parallelism: int) -> None:
        self._offsets = cut.offsets
        partitions = sum(len(topic.end_offsets) for topic in cut.topics)
        self._tasks_are_even = parallelism >= partitions
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
            if stage_info is not None and stage_info.numTasks and self._tasks_are_even:
                most = max(most, self._offsets * stage_info.numCompletedTasks // stage_info.numTasks)
            stage = context._jsc.sc().statusStore().lastStageAttempt(first)  # noqa: SLF001
            most = max(most, int(stage.inputRecords()))
        return min(most, self._offsets)


@contextmanager
def watched(progress: Progress, reading: SparkReading) -> Iterator[None]:
    """Show how far `reading` is while the block runs, in which the job's thread waits for Java."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_LOOK_EVERY_SECONDS):
            progress.advanced(reading.look)

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
