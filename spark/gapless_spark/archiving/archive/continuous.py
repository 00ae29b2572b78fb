"""Continuous archiving: when Kafka is polled, what is due, and what ends the run."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import GaplessError, SourceUnreachableError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_api.cli.reading_progress import SilentProgress
from gapless_kafka.access.errors import PartitionUnreadableError
from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import Waiting, select_for_cycle

if TYPE_CHECKING:
    from gapless_spark.archiving.archive.archiver import Archiver
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.reporter import StatusReporter
    from gapless_spark.archiving.archive.shutdown import Shutdown
    from gapless_spark.archiving.archive.topics import OffsetSnapshot
    from gapless_spark.settings.archive import ArchiveSettings

_FIND_TOPICS_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_SILENT = SilentProgress()


def run_until_stopped(
    archiver: Archiver, engine: CycleEngine, shutdown: Shutdown, settings: ArchiveSettings, reporter: StatusReporter
) -> None:
    """Archive what is due, and poll Kafka again after the trigger interval.

    After the first successful snapshot, outages of Kafka and the store are logged and retried for any length of time.

    Raises:
        StoppedError: by a signal.
        FencedError: another program archives a topic now.
        GaplessError: an error that retrying cannot solve.
    """
    run = _Run(archiver, engine, settings.cycle_bytes, reporter)
    run.take_snapshot()
    failures = 0
    while True:
        try:
            with shutdown.defer_sigterm():
                is_more_due = run.archive_due()
            shutdown.check()
            if not is_more_due:
                shutdown.wait(settings.trigger_interval_seconds)
                with shutdown.defer_sigterm():
                    run.take_snapshot()
                shutdown.check()
            failures = 0
        except SourceUnreachableError as error:
            pause = backoff(failures, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
            failures += 1
            _log().error("archiving pauses", reason=str(error), failures=failures, again_in_seconds=pause)
            shutdown.wait(pause)
            run.discard_snapshot()
        except (GaplessError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 -- what was committed is archived, and the rest is tried again
            pause = backoff(failures, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
            failures += 1
            reason = unexpected_sentence("A cycle of the archive has failed", error)
            log_unexpected(_log(), "archiving pauses", reason, error, failures=failures, again_in_seconds=pause)
            shutdown.wait(pause)
            run.discard_snapshot()


class _Run:
    """The state between two snapshots."""

    def __init__(self, archiver: Archiver, engine: CycleEngine, bytes_per_core: int, reporter: StatusReporter) -> None:
        self._archiver, self._engine, self._reporter = archiver, engine, reporter
        self._bytes_per_core = bytes_per_core
        self._waiting = Waiting()
        self._topics_found_at = float("-inf")
        self._snapshot: OffsetSnapshot | None = None
        self._discarded = 0

    def discard_snapshot(self) -> None:
        """Take a new snapshot before anything else."""
        self._snapshot = None

    def take_snapshot(self) -> OffsetSnapshot:
        """Take a snapshot, and find new topics from time to time."""
        now = time.monotonic()
        if now - self._topics_found_at >= _FIND_TOPICS_SECONDS:
            self._archiver.topics.find_topics()
            self._topics_found_at = now
        return self._keep(self._archiver.topics.take_snapshot())

    def _keep(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        self._snapshot = snapshot
        self._reporter.report(functools.partial(self._archiver.status, snapshot))
        return snapshot

    def archive_due(self) -> bool:
        """Archive what is due, as much as a cycle may read; return whether more is due immediately."""
        snapshot = self._snapshot or self.take_snapshot()
        due = self._waiting.due(snapshot.pending, self._archiver.thresholds.of, time.monotonic())
        chosen = select_for_cycle(due, self._bytes_per_core * self._engine.cores / 2**self._discarded)
        try:
            after = self._archiver.cycle(snapshot, chosen, _SILENT)
        except PlanAgainError as error:
            if not isinstance(error.__cause__, PartitionUnreadableError):
                self._discarded = min(self._discarded + 1, 10)
            self.take_snapshot()
            return True
        self._discarded = 0
        is_partial = sum(partition.offsets for partition in chosen) < sum(partition.offsets for partition in due)
        for partition in chosen:
            self._waiting.reset((partition.topic, partition.partition))
        self._keep(after)
        return is_partial


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
