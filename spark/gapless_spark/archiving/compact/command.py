"""Owns ``gapless compact``: settings in, one run or a run at each time of a schedule, then report and exit code.

Must not know which segments are joined, and how.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from gapless_api.base.errors import ConfigurationError, GaplessError, StoppedError, UndeliveredError
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.codec.canonical import moment_text
from gapless_archive.compaction.compactor import CompactionOptions, CompactionResult, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules
from gapless_archive.compaction.retention import Retention
from gapless_archive.selection import selection_from
from gapless_spark.archiving.compact.output import ending_of, sentence_of, write_line
from gapless_spark.archiving.compact.topics import chosen_chains
from gapless_spark.model.outcome import exit_code_of
from gapless_spark.output.jobs import say_what_is_ignored, stopped_by_signals, write_report
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.settings.compact import CompactSettings
from gapless_spark.settings.typed import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.base.settings import Resolved
    from gapless_archive.compaction.compactor import JoinRunner
    from gapless_archive.compaction.plan import Join
    from gapless_archive.selection import Selection

REPORT = ("gapless_compaction_report", 1)
"""The member of the report that holds its version."""
_FEW_BYTES = 1 << 30
"""So much is joined in this process with ``engine=auto``, which is over soon after Spark would have started."""


def run(settings: Resolved) -> int:
    """Compact as `settings` say and return the exit code.

    Raises:
        UndeliveredError: inputs are damaged; the others were joined.
        GaplessError: the archive cannot be read or written; what was committed before stays.
    """
    told = CompactSettings.of(settings.values)
    configure_logging(told.log_level, told.log_file_name)
    say_what_is_ignored(settings)
    check_output("report", told.report)
    compaction = _Compaction(told, EngineSettings.of(settings.values), selection_from(settings.values))
    with stopped_by_signals(lambda: compaction.written):
        return compaction.run() if told.schedule is None else compaction.run_by(_schedule(told))


def _schedule(told: CompactSettings) -> Schedule:
    try:
        return Schedule.parse(told.schedule or "", told.time_zone, seconds=True)
    except ScheduleError as error:
        raise ConfigurationError(str(error)) from None


class _Compaction:
    """Runs of one command."""

    def __init__(self, told: CompactSettings, engine: EngineSettings, selection: Selection) -> None:
        if told.min_level > told.max_level:
            raise ConfigurationError("minLevel is above maxLevel; lower it.")
        for least, most in (("min_segment_count", "max_segment_count"), ("min_segment_size", "max_segment_size")):
            if getattr(told, least) > getattr(told, most):
                raise ConfigurationError(
                    f"{least.replace('_', '-')} is above {most.replace('_', '-')}, so nothing is joined; lower it."
                )
        self._told, self._engine, self._selection = told, engine, selection
        self._reader = reader_of(engine)
        self._storage_classes = dict(told.level_storage_class)
        self._options = CompactionOptions(
            rules=CompactionRules(
                min_level=told.min_level,
                max_level=told.max_level,
                min_segment_age=timedelta(seconds=told.min_segment_age),
                min_segment_count=told.min_segment_count,
                min_segment_bytes=told.min_segment_size,
                max_segment_count=told.max_segment_count,
                max_segment_bytes=told.max_segment_size,
            ),
            retention=Retention(
                older_than=None if told.older_than is None else timedelta(seconds=told.older_than),
                keep_bytes=told.keep_bytes,
            ),
            partitions=selection.partitions,
            delete=told.delete,
            grace_period=timedelta(seconds=told.grace_period),
        )
        self._result = CompactionResult()
        self._earlier_outputs = 0
        self._run_by: str | None = None

    @property
    def written(self) -> str:
        """What was committed in all runs, for a sentence; empty for nothing."""
        outputs = self._earlier_outputs + self._result.outputs
        return f"{outputs:,} segments" if outputs else ""

    def run(self) -> int:
        """Do one run; report and say how it ended. Raises GaplessError."""
        started, created = time.monotonic(), datetime.now(UTC)
        self._earlier_outputs += self._result.outputs
        result = self._result = CompactionResult()
        failure: GaplessError | None = None
        try:
            self._run()
        except GaplessError as error:
            failure = error
        sentence = sentence_of(result)
        if result.damaged:
            failure = UndeliveredError(
                f"{len(result.damaged):,} joins met a damaged segment, which stays as it is: {result.damaged[0]} "
                f"{sentence}"
            )
        write_report(
            self._told.report,
            {
                REPORT[0]: REPORT[1],
                "command": "compact",
                "created": moment_text(created),
                "archive": str(self._selection.address),
                "outcome": ending_of(failure, result),
                "exit_code": exit_code_of(failure),
                "message": str(failure) if failure is not None else sentence,
                "run_by": self._run_by,
                **asdict(result),
                "seconds": round(time.monotonic() - started, 3),
            },
        )
        write_line(result)
        if failure is not None:
            raise failure
        sys.stdout.write(f"{sentence}\n")
        return exit_code_of(None)

    def run_by(self, schedule: Schedule) -> NoReturn:
        """Run at each time of a schedule, until a signal ends it. Raises GaplessError when settings are wrong."""
        while (due := schedule.next_after(datetime.now(UTC))) is not None:
            _log().info("next compaction", at=moment_text(due))
            while (left := (due - datetime.now(UTC)).total_seconds()) > 0:
                time.sleep(min(left, 60.0))  # clocks are set
            try:
                self.run()
            except (ConfigurationError, StoppedError):
                raise
            except GaplessError as error:
                _log().error("compaction failed; it is tried again at the next time", reason=str(error))
        raise ConfigurationError(f"The schedule {schedule.cron!r} is never due; correct it.")

    def _run(self) -> None:
        chains = chosen_chains(self._selection, self._selection.open(), self._told)
        self._run_by = None
        with (
            contextlib.ExitStack() as opened,
            ReadingProgress("compact", interval_seconds=self._engine.progress_interval) as progress,
        ):
            done = 0

            def open_runner(joins: Sequence[Join]) -> JoinRunner:
                progress.begin(sum(join.end - join.first for join in joins))
                return self._runner(joins, opened)

            def on_joined(join: Join) -> None:
                nonlocal done
                done += join.end - join.first
                progress.update(lambda: done)

            compact(chains, self._options, open_runner, result=self._result, on_joined=on_joined)

    def _runner(self, joins: Sequence[Join], opened: contextlib.ExitStack) -> JoinRunner:
        told = self._told
        few = sum(join.stored_bytes for join in joins) <= _FEW_BYTES
        if self._reader == "local" or (self._reader == "auto" and few):
            self._run_by = "local"
            return LocalRunner(
                functools.cache(lambda level: self._selection.open(storage_class=self._storage_classes.get(level))),
                parallelism=self._engine.parallelism or os.cpu_count() or 1,
                most_records=told.batch_size,
            )
        from gapless_spark.archiving.compact.spark_runner import JoinTask, SparkRunner  # noqa: PLC0415 -- few need Spark

        self._run_by = "spark"
        engine = Engine("gapless compact", self._engine.master, self._engine.driver_memory)

        def task_of(prefix: str, some: Sequence[Join]) -> JoinTask:
            storage_class = self._storage_classes.get(some[0].level)
            return JoinTask(self._selection, storage_class, prefix, tuple(some), told.batch_size)

        return SparkRunner(opened.enter_context(session(engine)), engine, task_of, self._engine.parallelism)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
