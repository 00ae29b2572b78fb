"""Owns ``gapless mirror``: settings in, workers until all is copied or somebody stops it, then report and exit code.

Must not know how a lane works.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError, SourceStalledError, StoppedError, UndeliveredError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output, write_atomically
from gapless_api.base.log import configure_logging
from gapless_api.codec.canonical import moment_text
from gapless_kafka.mirror.lanes.control import ensure_control_topic, read_lanes
from gapless_kafka.mirror.lanes.runs import run_to_join
from gapless_kafka.mirror.lanes.setup import OnDataLoss
from gapless_kafka.mirror.settings.engines import WORKERS, check_engine, engines
from gapless_kafka.mirror.settings.typed import MirrorSettings, cluster_connection, lane_setup
from gapless_kafka.mirror.topics.preflight import look_at_clusters
from gapless_kafka.mirror.workers.group_keeper import group_keeper
from gapless_kafka.mirror.workers.process import (
    Part,
    StopSignals,
    fitted,
    former_group,
    limits_tick,
    run_worker,
    source_watch,
    with_refusals,
)
from gapless_kafka.mirror.workers.supervisor import Supervisor
from gapless_kafka.mirror.workers.watched import Watched
from gapless_kafka.mirror.workers.worker import WorkerAccount
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import existing_topics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_api.base.settings import Resolved
    from gapless_kafka.mirror.workers.worker import WorkerObservation

REPORT = ("gapless_mirror_report", 1)
"""The member of the report that holds its version."""
_NOTHING = "Nothing to copy: the mirror has reached the end of the source."
log = structlog.get_logger("mirror")


def run(settings: Resolved) -> int:
    """Mirror as `settings` say and return the exit code.

    Raises:
        GaplessError: what ended the mirror; the report, if requested, says the same.
    """
    told = MirrorSettings.of(settings.values)
    configure_logging(told.log_level, told.log_file_name)
    check_output("report", told.report)
    for variable in settings.unknown_variables:
        log.warning("unknown environment variable", variable=variable)
    if settings.ignored:
        log.info("settings of other programs have no effect here", settings=settings.ignored)
    started = time.monotonic()
    accounts: list[WorkerAccount] = []
    failure: GaplessError | None = None
    with StopSignals() as signals:
        try:
            accounts = _copy(settings.values, told, signals)
            failure = _failure(accounts, signals)
            if told.once and signals.number is None:
                group_keeper(settings.values).translate()
        except GaplessError as error:
            failure = error
    total = _total(accounts)
    sentence = f"{total.records:,} records were copied." if total.records else _NOTHING
    _write_report(
        told.report,
        {
            REPORT[0]: REPORT[1],
            "command": "mirror",
            "created": moment_text(datetime.now(UTC)),
            "name": told.name,
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


def _copy(values: Mapping[str, Any], told: MirrorSettings, signals: StopSignals) -> list[WorkerAccount]:
    check_engine(values)
    target = cluster_connection(values, "target")
    control = told.identity.control_topic
    timeout = told.connect_timeout_seconds
    clusters = look_at_clusters(values, cluster_connection(values, "source"), target)
    before = lane_setup(values, told.lanes, 0, clusters)
    former = former_group(told, before)
    if former is not None and control not in existing_topics(target, timeout_seconds=timeout):
        former.check()  # the mirror has no positions of its own
    sources = source_watch(values, before, clusters)
    sources.refresh()
    lanes = ensure_control_topic(TargetTopics(target, timeout_seconds=timeout), control, told.lanes)
    if lanes != told.lanes:
        log.info("lanes were fixed when the mirror ran first", lanes=lanes)
    found = read_lanes(target, control, range(lanes))
    if before.on_data_loss is OnDataLoss.FAIL:
        clusters.check_name(found[0].flow)
    runs = (state.run for state in found.values())
    epoch = run_to_join(runs, told.engine, shares=told.engine == WORKERS).epoch
    if told.engine != WORKERS:
        setup = fitted(lane_setup(values, lanes, epoch, clusters), sources.view, timeout_seconds=timeout)
        follow_limits, keeper = limits_tick(told, setup, 1), group_keeper(values)

        def on_tick(seen: WorkerObservation) -> None:
            follow_limits(seen)
            keeper.tick(seen)

        with keeper, Watched(told, setup, 0, on_tick) as watched:
            is_ending = watched.until(lambda: signals.is_set() or watched.is_hopeless)
            account = engines()[told.engine].run(values, setup, sources, is_ending, watched.tick)
        return [watched.account(with_refusals(account, sources))]
    parts = [Part(number, told.workers, lanes, epoch, clusters) for number in range(told.workers)]
    if len(parts) == 1:
        return [run_worker(values, parts[0], signals.is_set, sources)]
    return Supervisor(values, [part._replace(view=sources.view) for part in parts]).run(signals.is_set)


def _failure(accounts: list[WorkerAccount], signals: StopSignals) -> GaplessError | None:
    total = _total(accounts)
    # A supervisor that stops a mirror sees that it did not work; what has stopped a lane may be too new for the watch.
    stalls = total.stalls or (total.stops if signals.number is not None else ())
    if stalls and (signals.number is not None or not total.stops):
        more = f" (and {len(stalls) - 1} more reasons)" if len(stalls) > 1 else ""
        return SourceStalledError(f"{total.records:,} records were copied, and it stood still. {stalls[0]}{more}")
    if signals.number is not None:
        return StoppedError(
            f"Stopped by {signal.Signals(signals.number).name}. {total.records:,} records were copied. The next run "
            f"continues from there.",
            by_terminal=signals.number == signal.SIGINT,
        )
    if total.stops:
        more = f" ({len(total.stops) - 1} more partitions or topics have stopped)" if len(total.stops) > 1 else ""
        return UndeliveredError(f"{total.records:,} records were copied. {total.stops[0]}{more}")
    if total.lost:
        return UndeliveredError(
            f"{total.records:,} records were copied. {total.lost:,} offsets were lost and are skipped by "
            f"--on-data-loss=skip-and-record; gapless mirror status lists them."
        )
    return None


def _total(accounts: list[WorkerAccount]) -> WorkerAccount:
    return WorkerAccount(
        records=sum(one.records for one in accounts),
        bytes=sum(one.bytes for one in accounts),
        lost=sum(one.lost for one in accounts),
        returned=sum(one.returned for one in accounts),
        stops=tuple(dict.fromkeys(stop for one in accounts for stop in one.stops)),
        stalls=tuple(stall for one in accounts for stall in one.stalls),
    )


def _write_report(path: Path | None, report: Mapping[str, Any]) -> None:
    if path is not None:
        write_atomically(path, json.dumps(report, indent=2, ensure_ascii=False).encode() + b"\n", what="report")
