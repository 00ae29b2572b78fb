"""Owns how topics are archived for as long as the program runs: when to look, what is due, and what ends it."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import SourceUnreachableError
from gapless_api.cli.reading_progress import SilentProgress
from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import Waiting, chosen_for_cycle

if TYPE_CHECKING:
    from gapless_spark.archiving.archive.archiver import Archiver
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.reporter import StatusReporter
    from gapless_spark.archiving.archive.shutdown import Shutdown
    from gapless_spark.archiving.archive.topics import Look
    from gapless_spark.settings.typed import ArchiveSettings

_FIND_TOPICS_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_SILENT = SilentProgress()


def run_until_stopped(
    archiver: Archiver, engine: CycleEngine, shutdown: Shutdown, settings: ArchiveSettings, reporter: StatusReporter
) -> None:
    """Archive what is due, and look again after the trigger interval.

    Once the first look has succeeded, Kafka and the store may be away for any time: that is told, and tried again.

    Raises:
        StoppedError: by a signal.
        FencedError: another program archives a topic now.
        GaplessError: what only a user can correct.
    """
    run = _Run(archiver, engine, settings.cycle_bytes, reporter)
    run.look()
    failures = 0
    while True:
        try:
            with shutdown.after_this():
                more = run.archive_due()
            shutdown.check()
            if not more:
                shutdown.wait(settings.trigger_interval_seconds)
                with shutdown.after_this():
                    run.look()
                shutdown.check()
            failures = 0
        except SourceUnreachableError as error:
            pause = backoff(failures, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
            failures += 1
            _log().error("archiving pauses", reason=str(error), failures=failures, again_in_seconds=pause)
            shutdown.wait(pause)
            run.forget()


class _Run:
    """What is known between two looks."""

    def __init__(
        self, archiver: Archiver, engine: CycleEngine, bytes_for_each_core: int, reporter: StatusReporter
    ) -> None:
        self._archiver, self._engine, self._reporter = archiver, engine, reporter
        self._bytes_for_each_core = bytes_for_each_core
        self._waiting = Waiting()
        self._found_at = float("-inf")
        self._look: Look | None = None
        self._discarded = 0

    def forget(self) -> None:
        """Look again before anything else."""
        self._look = None

    def look(self) -> Look:
        """Find out what there is; now and then also which topics."""
        now = time.monotonic()
        if now - self._found_at >= _FIND_TOPICS_SECONDS:
            self._archiver.topics.find_topics()
            self._found_at = now
        return self._looked(self._archiver.topics.look())

    def _looked(self, look: Look) -> Look:
        self._look = look
        self._reporter.tell(functools.partial(self._archiver.status, look))
        return look

    def archive_due(self) -> bool:
        """Archive what is due of the last look, as much as a cycle may read; say whether more is due at once."""
        look = self._look or self.look()
        due = self._waiting.due(look.pending, self._archiver.thresholds.of, time.monotonic())
        chosen = chosen_for_cycle(due, self._bytes_for_each_core * self._engine.cores / 2**self._discarded)
        try:
            after = self._archiver.cycle(look, chosen, _SILENT)
        except PlanAgainError:
            self._discarded = min(self._discarded + 1, 10)
            self.look()
            return True
        self._discarded = 0
        cut_short = sum(one.offsets for one in chosen) < sum(one.offsets for one in due)
        for one in chosen:
            self._waiting.archived((one.topic, one.partition))
        self._looked(after)
        return cut_short


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
