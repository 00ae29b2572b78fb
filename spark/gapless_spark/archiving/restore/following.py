"""``gapless restore --follow``: poll the archive, write new segments, wait for late ones.

Must not know how long to wait: see `follow`. If the store or Kafka does not answer, it tries again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import SourceUnreachableError, UndeliveredError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.state import ArchiveDamagedError
from gapless_spark.archiving.restore.follow import LateSegments, is_too_young, offsets_to_write
from gapless_spark.archiving.restore.followed_generations import newer_generation
from gapless_spark.archiving.restore.orders import Selection

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_spark.archiving.restore.engine import RestoreEngine
    from gapless_spark.archiving.restore.plan import PartitionPlan, Source
    from gapless_spark.archiving.restore.restorer import Restorer
    from gapless_spark.archiving.restore.task import PartitionResult
    from gapless_spark.archiving.restore.works import TopicRestore

_LONGEST_PAUSE_SECONDS = 60.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 20.0, 600.0
"""Of a partition that has stopped at a record."""


class _Stopped(NamedTuple):
    """A partition that waits, because a record of it cannot be written."""

    offset: int
    failures: int
    again_at: float
    """On the monotonic clock."""


class Follower:
    """Continues a restore with new segments until it is stopped."""

    def __init__(self, restorer: Restorer) -> None:
        settings = restorer.settings
        self._restorer = restorer
        self._settings = settings
        self._skips = settings.on_lost == "skip"
        self._late = LateSegments(settings.lost_segment_timeout_seconds, settings.late_segment_retries, random.random)
        self._unreadable: dict[tuple[str, int], tuple[OffsetRanges, str]] = {}
        """The first unreadable offsets and the reason, by work and partition."""
        self._stopped: dict[tuple[str, int], _Stopped] = {}
        """By work and partition."""
        self._replaced: set[Source] = set()
        """Generations that are no longer the newest."""
        self._damaged_since: float | None = None
        self._failures = 0

    def run(self) -> NoReturn:
        """Follow the archive.

        Raises:
            StoppedError: a signal came.
            UndeliveredError: offsets are lost, and the setting is to fail.
            GaplessError: an error that does not go away by itself.
        """
        if self._settings.group_offsets is not None:
            _log().warning("consumer group positions are only committed by a run without --follow")
        with self._restorer.engine() as engine, self._restorer.progress() as progress:
            while True:
                try:
                    self._cycle(engine, progress)
                    self._failures, self._damaged_since = 0, None
                except SourceUnreachableError as error:
                    self._failures += 1
                    _log().warning("the restore waits", reason=str(error))
                except ArchiveDamagedError as error:  # commits may arrive out of order
                    self._wait_for_commits(error)
                interval = self._settings.follow_interval_seconds
                time.sleep(backoff(self._failures, first=interval, longest=max(interval, _LONGEST_PAUSE_SECONDS)))

    def _cycle(self, engine: RestoreEngine, progress: Progress) -> None:
        targets = self._restorer.plan_and_check()
        selections = [
            selection
            for restore in self._restorer.restores
            for plan in restore.plans
            if (selection := self._select(restore, plan)) is not None and selection.ranges
        ]
        if not selections:
            self._refuse_newer_generations()
            self._restorer.create_empty(targets)
            self._restorer.lines.progress("restoring" if self._is_late else "following", at_once=False)
            return
        self._restorer.prepare(targets)
        results = self._restorer.write(engine, targets, progress, selections)
        self._store_unreadable(selections, results)
        self._store_stopped(results)
        account = self._restorer.account
        account.add_results(results)
        self._restorer.lines.progress("restoring" if self._is_late else "following")
        records = sum(result.records for of_work in results.values() for result in of_work)
        _log().info("restored", records=records, all=account.records)

    def _refuse_newer_generations(self) -> None:
        """End the restore when a topic has a newer generation, and all of the followed one is written.

        Raises:
            UndeliveredError: the restore has ended.
        """
        for restore in self._restorer.restores if self._settings.generation is None else ():
            if self._unreadable or any(plan.ranges or plan.unexplained for plan in restore.plans):
                continue
            found = newer_generation(self._restorer.place, restore)
            if found is None:
                continue
            if restore.source not in self._replaced:  # the next plan has everything that was archived before
                self._replaced.add(restore.source)
                continue
            raise UndeliveredError(
                f"The restore of {restore.source} follows the generation {restore.source.topic_id}, and has written "
                f"everything that is archived of it; {found}. Nothing of another generation was written to "
                f"{restore.target}; restore it to another topic, with --generation=ID and --to-topic."
            )

    def _select(self, restore: TopicRestore, plan: PartitionPlan) -> Selection | None:
        """Select the offsets of a partition to write now. Raises UndeliveredError for lost offsets, unless skipped."""
        settings, key = self._settings, (restore.work, plan.partition)
        stopped = self._stopped.get(key)
        if stopped is not None and time.monotonic() < stopped.again_at:
            return None
        delay, now = settings.first_segment_delay_seconds, datetime.now(UTC)
        if is_too_young(plan, delay, has_begun=restore.has_begun(plan.partition), now=now):
            return None
        missing, reason = OffsetRanges(plan.unexplained.head(1)), "no segment covers it"
        unreadable = self._unreadable.get(key)
        if unreadable is not None and (at := unreadable[0].first_offset) in plan.ranges:
            missing, reason = (missing, reason) if missing and missing.first_offset < at else unreadable
        first = missing.first_offset if missing else None
        given_up = self._late.is_given_up(f"{restore.source} {restore.target}", plan.partition, first, time.monotonic())
        if given_up and not self._skips:
            raise UndeliveredError(
                f"Offset {first} of partition {plan.partition} of {restore.source} did not arrive within "
                f"{settings.lost_segment_timeout_seconds:,.0f} s ({reason}); bring the segment back and run again, or "
                f"give --on-lost=skip."
            )
        return Selection(restore, plan, offsets_to_write(plan, missing if given_up else OffsetRanges()), given_up)

    def _store_unreadable(
        self, selections: Sequence[Selection], results: Mapping[str, Sequence[PartitionResult]]
    ) -> None:
        """Store unreadable offsets; they may be late, and count as lost only after the timeout."""
        skipped = {(each.restore.work, each.plan.partition) for each in selections if each.skip_lost}
        for work, of_work in results.items():
            for result in of_work:
                key = (work, result.partition)
                self._unreadable.pop(key, None)
                if result.unreadable and key not in skipped:
                    self._unreadable[key] = (OffsetRanges(result.unreadable), result.failure)
                    _log().warning(
                        "a segment is late or damaged", work=work, partition=result.partition, reason=result.failure
                    )
                    result.unreadable, result.failure = [], ""

    @property
    def _is_late(self) -> bool:
        """Whether some partitions wait for something else than new segments."""
        return bool(self._unreadable or self._stopped)

    def _store_stopped(self, results: Mapping[str, Sequence[PartitionResult]]) -> None:
        """Let partitions wait that have stopped at a record; all others go on."""
        for work, of_work in results.items():
            for result in of_work:
                before = self._stopped.pop((work, result.partition), None)
                if result.stopped_at is None:
                    continue
                is_same = before is not None and before.offset == result.stopped_at
                failures = before.failures + 1 if before is not None and is_same else 1
                pause = backoff(failures - 1, first=_FIRST_RETRY_SECONDS, longest=_LAST_RETRY_SECONDS)
                self._stopped[work, result.partition] = _Stopped(result.stopped_at, failures, time.monotonic() + pause)
                where = {"work": work, "partition": result.partition, "offset": result.stopped_at}
                _log().error("partition waits", **where, reason=result.stop_reason, again_in_seconds=pause)

    def _wait_for_commits(self, error: ArchiveDamagedError) -> None:
        now = time.monotonic()
        if self._damaged_since is None:
            self._damaged_since = now
        if now - self._damaged_since > self._settings.lost_segment_timeout_seconds:
            raise error
        self._failures += 1
        _log().warning("the restore waits", reason=str(error))


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
