"""``gapless compact``: settings, one run or scheduled runs, report and exit code.

Must not know which segments are joined, nor how.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from gapless_api.base.errors import ConfigurationError, GaplessError, StoppedError, UndeliveredError
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.base.quantities import quantity
from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.cli.json_output import write_report
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.compaction_result import COMPACTION_LINE, CompactionLine
from gapless_archive.cli.texts import size_text
from gapless_archive.compaction.compactor import CompactionOptions, CompactionResult, JoinRunner, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules, Join
from gapless_archive.compaction.retention import Retention
from gapless_archive.selection import Selection, selection_from
from gapless_spark.archiving.compact.topics import selected_chains
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.output.jobs import log_ignored_settings, stop_on_signals
from gapless_spark.runtime.job import reader_of
from gapless_spark.runtime.session import Engine, session
from gapless_spark.settings.compact import CompactSettings
from gapless_spark.settings.engine import EngineSettings

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved


def write_status_line(result: CompactionResult) -> None:
    """Write the status line for the operator, unless the output is a terminal."""
    if sys.stderr.isatty():
        return
    line = CompactionLine(
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
        segments_before=result.inputs,
        segments_after=result.outputs,
        records=result.records,
        bytes=result.content_bytes,
        deleted_objects=result.deleted + result.orphans,
    )
    sys.stderr.write(COMPACTION_LINE.to_line(line) + "\n")


def outcome_word(failure: GaplessError | None, result: CompactionResult) -> str:
    """Return the outcome of a run for the report."""
    if result.damaged:
        return "damaged-segments"
    if failure is not None:
        return outcome_of(failure)
    return "compacted" if result.outputs or result.expired or result.deleted or result.orphans else "nothing-to-do"


def summary_sentence(result: CompactionResult) -> str:
    """Summarize what a run has done."""
    parts = []
    if result.outputs:
        parts.append(
            f"Joined {quantity(result.inputs, 'segment')} into {result.outputs:,} "
            f"({quantity(result.records, 'record')}, {size_text(result.input_bytes)} became "
            f"{size_text(result.output_bytes)})."
        )
    else:
        parts.append("No segments to join.")
    if result.skipped:
        parts.append(f"Skipped {quantity(result.skipped, 'join')}, because another program changed the segments.")
    if result.expired:
        parts.append(f"Removed {result.expired:,} old segments.")
    if result.deleted or result.orphans:
        parts.append(f"Deleted {result.deleted + result.orphans:,} objects.")
    if result.waiting:
        parts.append(f"{result.waiting:,} objects will be deleted after the grace period.")
    if result.held:
        parts.append(f"On hold, nothing is deleted: {', '.join(result.held)}.")
    return " ".join(parts)


REPORT = ("gapless_compaction_report", 1)
"""The member of the report that holds its version."""
_MAX_LOCAL_BYTES = 1 << 30
"""With ``engine=auto``, smaller runs join in this process, which is quicker than starting Spark."""


def run(settings: Resolved) -> int:
    """Compact according to `settings` and return the exit code.

    Raises:
        UndeliveredError: some segments are damaged; the others were joined.
        GaplessError: the archive cannot be read or written; earlier commits stay.
    """
    options = CompactSettings.of(settings.values)
    configure_logging(options.log_level, options.log_file_name)
    log_ignored_settings(settings)
    check_output("report", options.report)
    compaction = _Compaction(options, EngineSettings.of(settings.values), selection_from(settings.values))
    with stop_on_signals(lambda: compaction.written):
        return compaction.run() if options.schedule is None else compaction.run_by(_schedule(options))


def _schedule(options: CompactSettings) -> Schedule:
    try:
        return Schedule.parse(options.schedule or "", options.time_zone, seconds=True)
    except ScheduleError as error:
        raise ConfigurationError(str(error)) from None


class _Compaction:
    """The runs of one command."""

    def __init__(self, settings: CompactSettings, engine: EngineSettings, selection: Selection) -> None:
        if settings.min_level > settings.max_level:
            raise ConfigurationError("minLevel is above maxLevel; correct them.")
        for lower, upper in (("min_segment_count", "max_segment_count"), ("min_segment_size", "max_segment_size")):
            if getattr(settings, lower) > getattr(settings, upper):
                names = f"{lower} is above {upper}".replace("_", "-")
                raise ConfigurationError(f"{names}, so nothing would be joined; correct them.")
        self._settings, self._engine, self._selection = settings, engine, selection
        self._reader = reader_of(engine)
        self._storage_classes = dict(settings.level_storage_class)
        self._options = CompactionOptions(
            rules=CompactionRules(
                min_level=settings.min_level,
                max_level=settings.max_level,
                min_segment_age=timedelta(seconds=settings.min_segment_age),
                min_segment_count=settings.min_segment_count,
                min_segment_bytes=settings.min_segment_size,
                max_segment_count=settings.max_segment_count,
                max_segment_bytes=settings.max_segment_size,
            ),
            retention=Retention(
                older_than=None if settings.older_than is None else timedelta(seconds=settings.older_than),
                keep_bytes=settings.keep_bytes,
                least_age=None if settings.min_retention is None else timedelta(seconds=settings.min_retention),
            ),
            partitions=selection.partitions,
            delete=settings.delete,
            grace_period=timedelta(seconds=settings.grace_period),
        )
        self._options.retention.check()
        self._result = CompactionResult()
        self._earlier_outputs = 0
        self._run_by: str | None = None

    @property
    def written(self) -> str:
        """The segments that all runs have committed, for a message; empty for none."""
        outputs = self._earlier_outputs + self._result.outputs
        return quantity(outputs, "segment") if outputs else ""

    def run(self) -> int:
        """Run once, and write the report and the outcome. Raises GaplessError."""
        started, created = time.monotonic(), datetime.now(UTC)
        self._earlier_outputs += self._result.outputs
        result = self._result = CompactionResult()
        failure: GaplessError | None = None
        try:
            self._compact()
        except GaplessError as error:
            failure = error
        sentence = summary_sentence(result)
        if result.damaged:
            failure = UndeliveredError(
                f"{len(result.damaged):,} joins failed because of a damaged segment, which is kept: "
                f"{result.damaged[0]} {sentence}"
            )
        write_report(
            self._settings.report,
            {
                REPORT[0]: REPORT[1],
                "command": "compact",
                "created": moment_text(created),
                "archive": str(self._selection.address),
                "outcome": outcome_word(failure, result),
                "exit_code": exit_code_of(failure),
                "message": str(failure) if failure is not None else sentence,
                "run_by": self._run_by,
                **asdict(result),
                "seconds": round(time.monotonic() - started, 3),
            },
        )
        write_status_line(result)
        if failure is not None:
            raise failure
        sys.stdout.write(f"{sentence}\n")
        return exit_code_of(None)

    def run_by(self, schedule: Schedule) -> NoReturn:
        """Run at each time of a schedule until a signal arrives. Raises GaplessError when settings are wrong."""
        while (due := schedule.next_after(datetime.now(UTC))) is not None:
            _log().info("next compaction", at=moment_text(due))
            while (remaining := (due - datetime.now(UTC)).total_seconds()) > 0:
                time.sleep(min(remaining, 60.0))  # the clock may be adjusted
            try:
                self.run()
            except (ConfigurationError, StoppedError):
                raise
            except GaplessError as error:
                _log().error("compaction failed; retrying at the next scheduled time", reason=str(error))
        raise ConfigurationError(f"The schedule {schedule.cron!r} is never due; correct it.")

    def _compact(self) -> None:
        chains = selected_chains(self._selection, self._selection.open(), self._settings)
        self._run_by = None
        with (
            contextlib.ExitStack() as stack,
            ReadingProgress("compact", interval_seconds=self._engine.progress_interval) as progress,
        ):
            done = 0

            def open_runner(joins: Sequence[Join]) -> JoinRunner:
                progress.begin(sum(join.end - join.first for join in joins))
                return self._runner(joins, stack)

            def on_joined(join: Join) -> None:
                nonlocal done
                done += join.end - join.first
                progress.update(lambda: done)

            compact(chains, self._options, open_runner, result=self._result, on_joined=on_joined)

    def _runner(self, joins: Sequence[Join], stack: contextlib.ExitStack) -> JoinRunner:
        settings = self._settings
        is_small = sum(join.stored_bytes for join in joins) <= _MAX_LOCAL_BYTES
        if self._reader == "local" or (self._reader == "auto" and is_small):
            self._run_by = "local"
            return LocalRunner(
                functools.cache(lambda level: self._selection.open(storage_class=self._storage_classes.get(level))),
                parallelism=self._engine.parallelism or os.cpu_count() or 1,
                max_row_group_records=settings.batch_size,
            )
        from gapless_spark.archiving.compact.spark_runner import JoinTask, SparkRunner  # noqa: PLC0415 -- rarely needed

        self._run_by = "spark"
        engine = Engine("gapless compact", self._engine.master, self._engine.driver_memory)

        def task_of(prefix: str, group: Sequence[Join]) -> JoinTask:
            storage_class = self._storage_classes.get(group[0].level)
            return JoinTask(self._selection, storage_class, prefix, tuple(group), settings.batch_size)

        return SparkRunner(stack.enter_context(session(engine)), engine, task_of, self._engine.parallelism)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
