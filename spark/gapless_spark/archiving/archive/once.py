"""Archiving once: everything that is in Kafka at the start, cycle by cycle, with a commit after each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from gapless_kafka.access.errors import PartitionUnreadableError
from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import clip_to_end, select_for_cycle

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_spark.archiving.archive.archiver import Archiver
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.reporter import StatusReporter

_MAX_DISCARDED = 10
"""Consecutive batches that were discarded."""


class CycleProgress:
    """Progress of one cycle as part of the run."""

    def __init__(self, progress: Progress, before: int) -> None:
        """`before` offsets were done when the cycle began."""
        self._progress, self._before = progress, before

    def begin(self, offsets: int) -> None:
        """Do nothing: the number of offsets of the run is known."""

    def update(self, count_read: Callable[[], int]) -> None:
        """Report the progress of the run."""
        self._progress.update(lambda: self._before + count_read())


def archive_once(
    archiver: Archiver, engine: CycleEngine, bytes_per_core: int, progress: Progress, reporter: StatusReporter
) -> None:
    """Archive everything up to the current ends of the partitions.

    Raises:
        GaplessError: Kafka cannot be read, or the archive cannot be written; earlier commits stay.
    """
    archiver.topics.find_topics()
    snapshot = archiver.topics.take_snapshot()
    ends = {(partition.topic, partition.partition): partition.end for partition in snapshot.pending}
    progress.begin(sum(partition.offsets for partition in snapshot.pending))
    done = discarded = 0
    while True:
        # Read less after a failure, or records might expire again before they are read.
        max_bytes = bytes_per_core * engine.cores / 2**discarded
        pending = sorted(
            (clip_to_end(partition, ends) for partition in snapshot.pending),
            key=lambda partition: (partition.topic, partition.partition),
        )
        chosen = select_for_cycle(pending, max_bytes)
        try:
            snapshot = archiver.cycle(snapshot, chosen, CycleProgress(progress, done))
        except PlanAgainError as error:
            discarded += not isinstance(error.__cause__, PartitionUnreadableError)
            if discarded > _MAX_DISCARDED and error.__cause__ is not None:
                raise error.__cause__ from None
            snapshot = archiver.topics.take_snapshot()
            continue
        discarded = 0
        reporter.report(functools.partial(archiver.status, snapshot), is_last=not chosen)
        done += sum(partition.offsets for partition in chosen)
        if not chosen:
            return
