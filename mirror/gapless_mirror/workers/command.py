"""``gapless mirror``: it runs the workers until they are done or stopped, and sets the report and exit code.

While it starts, it tells what it waits for, before a mirror has any progress of its own to show.
Must not know how a lane works.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import structlog

from gapless_api.base.errors import GaplessError, SourceStalledError, UndeliveredError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.cli.json_output import write_report
from gapless_api.codec.canonical import moment_text
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import choice_from, existing_topics
from gapless_mirror.lanes.control import ensure_control_topic, read_lanes
from gapless_mirror.lanes.layout import lanes_of
from gapless_mirror.lanes.parking import check_parking
from gapless_mirror.lanes.runs import run_to_join
from gapless_mirror.lanes.setup import OnDataLoss
from gapless_mirror.settings.engines import WORKERS, engines
from gapless_mirror.settings.typed import MirrorSettings, cluster_connection, lane_setup
from gapless_mirror.topics.preflight import check_clusters
from gapless_mirror.workers.group_keeper import group_keeper
from gapless_mirror.workers.process import (
    ProcessSpec,
    StopSignals,
    limits_updater,
    run_until_done,
    source_watch,
    start_group,
    with_batch_bytes,
    with_problems,
)
from gapless_mirror.workers.supervisor import Supervisor
from gapless_mirror.workers.transformation import check_statement, check_targets, evaluating
from gapless_mirror.workers.watched import WatchedProcess
from gapless_mirror.workers.worker import WorkerObservation, WorkerTotals

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved


log = structlog.get_logger("mirror")


def _log(waits_for: str) -> None:
    log.info("mirror starts", waits_for=waits_for)


class StartProgress:
    """Logs in each interval what a mirror waits for, until `end` or the end of its ``with`` block."""

    def __init__(self, interval_seconds: float, *, tell: Callable[[str], None] = _log) -> None:
        """With an interval of 0, nothing is logged."""
        self.waits_for = ""
        """What the current step waits for."""
        self._interval_seconds, self._tell = interval_seconds, tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="start", daemon=True)

    def __enter__(self) -> Self:
        if self._interval_seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Log nothing from now on: the mirror has started."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_seconds):
            self._tell(self.waits_for)


REPORT = ("gapless_mirror_report", 1)
"""The member of the report that holds its version."""
_NOTHING = "Nothing to copy: the mirror has reached the end of the source."
log = structlog.get_logger("mirror")


def run(settings: Resolved) -> int:
    """Run the mirror, and return the exit code.

    Raises:
        GaplessError: why the mirror ended; the report, if requested, contains it.
    """
    typed = MirrorSettings.of(settings.values)
    configure_logging(typed.log_level, typed.log_file_name)
    check_output("report", typed.report)
    for variable in settings.unknown_variables:
        log.warning("unknown environment variable", variable=variable)
    if settings.ignored:
        log.info("settings of other programs have no effect here", settings=settings.ignored)
    started = time.monotonic()
    total = WorkerTotals()
    failure: GaplessError | None = None
    with StopSignals() as signals, StartProgress(typed.progress_interval) as starting:
        try:
            starting.waits_for = "" if typed.sql is None else "Spark, which evaluates the transform"
            with evaluating(settings.values) as values:
                workers, unmatched = _copy(values, typed, signals, starting)
            total = _sum(workers)
            failure = _failure(total, signals)
            if typed.once and failure is None and unmatched:
                failure = UndeliveredError(f"{total.records:,} records were copied. {unmatched[0]}")
            if typed.once and signals.number is None:
                group_keeper(settings.values).translate()
        except GaplessError as error:
            failure = error
    sentence = f"{total.records:,} records were copied." if total.records else _NOTHING
    write_report(
        typed.report,
        {
            REPORT[0]: REPORT[1],
            "command": "mirror",
            "created": moment_text(datetime.now(UTC)),
            "name": typed.name,
            "exit_code": int(error_outcome(failure).exit_code if failure is not None else ExitCode.DONE),
            "message": str(failure) if failure is not None else sentence,
            "seconds": round(time.monotonic() - started, 3),
            **asdict(total),
        },
    )
    if failure is not None:
        raise failure
    sys.stdout.write(f"{sentence}\n")
    return ExitCode.DONE


def _copy(
    values: Mapping[str, Any], typed: MirrorSettings, signals: StopSignals, starting: StartProgress
) -> tuple[list[WorkerTotals], list[str]]:
    """Copy; return the totals of the processes, and a sentence for each rule that selects no topic."""
    target = cluster_connection(values, "target")
    control = typed.identity.control_topic
    timeout = typed.connect_timeout_seconds
    starting.waits_for = "the IDs of both clusters, and the mirrors that write to the source"
    clusters = check_clusters(values, cluster_connection(values, "source"), target)
    setup = lane_setup(values, typed.lanes, 0, clusters)
    group = start_group(typed, setup)
    if group is not None and control not in existing_topics(target, timeout_seconds=timeout):
        group.check()  # the mirror has no positions of its own
    starting.waits_for = "the process that evaluates the transform"
    check_statement(setup, signals.check)
    starting.waits_for = "the topics of the source, and those of the target"
    check_parking(setup)
    sources = source_watch(values, setup, clusters)
    sources.refresh()
    check_targets(setup, sources.view, timeout_seconds=timeout)
    unmatched = choice_from(values).unmatched(sources.existing)
    for sentence in unmatched:
        log.warning("nothing selected", message=sentence)
    starting.waits_for = f"the topic {control} of the target"
    partitions = ensure_control_topic(TargetTopics(target, timeout_seconds=timeout), control, typed.lanes)
    states = read_lanes(target, control, range(partitions))
    starting.end()
    lanes = lanes_of(control, partitions, states)
    if lanes != typed.lanes:
        log.info("lanes were fixed when the mirror ran first", lanes=lanes)
    if partitions != lanes:
        log.warning("added partitions of the control topic are ignored", partitions=partitions, lanes=lanes)
    for sentence in (sentence for state in states.values() for sentence in state.foreign):
        log.warning("record ignored", message=sentence)
    if setup.on_data_loss is OnDataLoss.FAIL:
        clusters.check_name(states[0].flow)
    runs = (state.run for lane, state in states.items() if lane < lanes)
    epoch = run_to_join(runs, typed.engine, shares=typed.engine == WORKERS).epoch
    if typed.engine != WORKERS:
        setup = with_batch_bytes(lane_setup(values, lanes, epoch, clusters), sources.view, timeout_seconds=timeout)
        update_limits, keeper = limits_updater(typed, setup, 1), group_keeper(values)

        def on_tick(observation: WorkerObservation) -> None:
            update_limits()
            keeper.tick(observation)

        with keeper, WatchedProcess(typed, setup, 0, on_tick) as watched:
            is_stopping = watched.until(lambda: signals.is_set() or watched.is_stuck)
            totals = engines()[typed.engine].run(values, setup, sources, is_stopping, watched.tick)
        return [watched.with_stalls(with_problems(totals, sources))], unmatched
    specs = [ProcessSpec(number, typed.workers, lanes, epoch, clusters) for number in range(typed.workers)]
    if len(specs) == 1:
        return [run_until_done(values, specs[0], signals.is_set, sources)], unmatched
    return Supervisor(values, [spec._replace(view=sources.view) for spec in specs]).run(signals.is_set), unmatched


def _failure(total: WorkerTotals, signals: StopSignals) -> GaplessError | None:
    # A mirror that is stopped while stalled reports the stall; the watch may not have reported a new stop yet.
    stalls = total.stalls or (total.stops if signals.number is not None else ())
    if stalls and (signals.number is not None or not total.stops):
        more = f" (and {len(stalls) - 1} more reasons)" if len(stalls) > 1 else ""
        return SourceStalledError(f"{total.records:,} records were copied, then the mirror stalled. {stalls[0]}{more}")
    if signals.number is not None:
        return signals.stopped(f" {total.records:,} records were copied. The next run continues from there.")
    if total.stops:
        more = f" ({len(total.stops) - 1} more partitions or topics have stopped)" if len(total.stops) > 1 else ""
        return UndeliveredError(f"{total.records:,} records were copied. {total.stops[0]}{more}")
    if total.lost:
        return UndeliveredError(
            f"{total.records:,} records were copied. {total.lost:,} offsets were lost, or refused by the target, and "
            f"are skipped or parked by request (--on-data-loss, --on-bad-record); gapless mirror status lists them "
            f"with the reason."
        )
    return None


def _sum(workers: list[WorkerTotals]) -> WorkerTotals:
    return WorkerTotals(
        records=sum(worker.records for worker in workers),
        bytes=sum(worker.bytes for worker in workers),
        lost=sum(worker.lost for worker in workers),
        returned=sum(worker.returned for worker in workers),
        stops=tuple(dict.fromkeys(stop for worker in workers for stop in worker.stops)),
        stalls=tuple(stall for worker in workers for stall in worker.stalls),
    )
