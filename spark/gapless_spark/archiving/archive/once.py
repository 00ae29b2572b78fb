"""Owns how all that is in Kafka at one moment is archived, cycle by cycle, each of them committed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import chosen_for_cycle, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.cli.reading_progress import Progress
    from gapless_spark.archiving.archive.archiver import Archiver
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.reporter import StatusReporter

_MOST_DISCARDED = 10
"""Batches one after the other of which nothing could be used."""


class RestOfProgress:
    """Progress of a cycle as part of more."""

    def __init__(self, progress: Progress, before: int) -> None:
        """`before` offsets are behind us when the cycle begins."""
        self._progress, self._before = progress, before

    def begin(self, offsets: int) -> None:
        """Do nothing: the length of all cycles together is known."""

    def update(self, count_read: Callable[[], int]) -> None:
        """Tell how far all cycles are."""
        self._progress.update(lambda: self._before + count_read())


def archive_once(
    archiver: Archiver, engine: CycleEngine, bytes_for_each_core: int, progress: Progress, reporter: StatusReporter
) -> None:
    """Archive what there is now, up to ends that are fixed first.

    Raises:
        GaplessError: it could not be read or written; what was committed before stays.
    """
    archiver.topics.find_topics()
    look = archiver.topics.look()
    ends = {(one.topic, one.partition): one.end for one in look.pending}
    progress.begin(sum(one.offsets for one in look.pending))
    behind = discarded = 0
    while True:
        # Less at once after a failure, or records might expire again before they are read.
        most = bytes_for_each_core * engine.cores / 2**discarded
        pending = sorted((within(one, ends) for one in look.pending), key=lambda one: (one.topic, one.partition))
        chosen = chosen_for_cycle(pending, most)
        try:
            look = archiver.cycle(look, chosen, RestOfProgress(progress, behind))
        except PlanAgainError as error:
            discarded += 1
            if discarded > _MOST_DISCARDED and error.__cause__ is not None:
                raise error.__cause__ from None
            look = archiver.topics.look()
            continue
        discarded = 0
        reporter.tell(functools.partial(archiver.status, look), is_last=not chosen)
        behind += sum(one.offsets for one in chosen)
        if not chosen:
            return
