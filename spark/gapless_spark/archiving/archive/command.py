"""Owns ``gapless archive``: settings in, cycles until all is archived or somebody stops it, then report and exit code.

Must not know how a cycle works.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import GaplessError, UndeliveredError
from gapless_api.base.files import check_output, write_atomically
from gapless_api.base.log import configure_logging
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.codec.canonical import moment_text
from gapless_archive.store.access import access_from
from gapless_archive.store.places import open_place
from gapless_kafka.access.connection import connection_from
from gapless_kafka.topics.topic_choice import choice_from
from gapless_spark.archiving.archive.account import as_json, losses, sentence
from gapless_spark.archiving.archive.archiver import Archiver
from gapless_spark.archiving.archive.continuous import run_until_stopped
from gapless_spark.archiving.archive.engines import CycleEngine
from gapless_spark.archiving.archive.once import archive_once
from gapless_spark.archiving.archive.output import show_account
from gapless_spark.archiving.archive.reporter import StatusReporter
from gapless_spark.archiving.archive.shutdown import Shutdown
from gapless_spark.archiving.archive.thresholds import TopicThresholds
from gapless_spark.archiving.archive.topics import Target
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.settings.typed import ArchiveSettings, EngineSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_api.base.settings import Resolved

PEER_LAYOUT_WARNING = (
    "the layout kafka-replicator stores null as empty and no timestamp types: tombstones come back as empty values; "
    "archive compacted topics with --layout=gapless"
)
REPORT = ("gapless_archive_report", 1)
"""The member of the report that holds its version."""


def run(settings: Resolved) -> int:
    """Archive as `settings` say and return the exit code.

    Raises:
        UndeliveredError: all is archived that there is, and Kafka had deleted some before.
        GaplessError: the archive could not be written or Kafka not be read; the report, if requested, tells why.
    """
    from gapless_spark.output.jobs import say_what_is_ignored  # noqa: PLC0415 -- slow to import

    told = ArchiveSettings.of(settings.values)
    configure_logging(told.log_level, told.log_file_name)
    say_what_is_ignored(settings)
    if told.layout == "kafka-replicator":
        _log().warning(PEER_LAYOUT_WARNING)
    collect_rarely()
    started = time.monotonic()
    report: dict[str, Any] = {
        REPORT[0]: REPORT[1],
        "command": "archive",
        "created": moment_text(datetime.now(UTC)),
        "archive": str(told.archive),
        "region": told.region,
    }
    failure: GaplessError | None = None
    with contextlib.ExitStack() as opened:
        check_output("report", told.report)
        archiver, engine = _opened(told, settings.values, opened)
        shutdown = opened.enter_context(Shutdown(lambda: sentence(archiver.topics.accounts, up_to_date="")))
        try:
            reporter = opened.enter_context(StatusReporter(settings.values["progressInterval"], told.metrics_port))
            if told.once:
                with ReadingProgress("archive", interval_seconds=settings.values["progressInterval"]) as progress:
                    archive_once(archiver, engine, told.cycle_bytes, progress, reporter)
            else:
                run_until_stopped(archiver, engine, shutdown, told, reporter)
        except GaplessError as error:
            failure = error
        archiver.finish()
        report["read_by"] = engine.read_by
    lost = losses(archiver.topics.accounts)
    text = sentence(archiver.topics.accounts, up_to_date="Nothing to archive: everything in Kafka is in the archive.")
    if failure is None and lost:
        failure = UndeliveredError(f"{text} {lost}")
    outcome = outcome_of(failure) if failure is not None else "archived" if _any(archiver) else "nothing-to-do"
    if isinstance(failure, UndeliveredError):
        outcome = "records-lost"
    report |= {
        "outcome": outcome,
        "exit_code": exit_code_of(failure),
        "message": str(failure) if failure is not None else text,
        "topics": as_json(archiver.topics.accounts),
        "seconds": round(time.monotonic() - started, 3),
    }
    _write_report(told.report, report)
    show_account(archiver.topics.accounts, sys.stdout, text if failure is None else "")
    if failure is not None:
        raise failure
    return exit_code_of(None)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()


def _any(archiver: Archiver) -> bool:
    return any(account.segments for account in archiver.topics.accounts.values())


def _opened(
    told: ArchiveSettings, values: Mapping[str, Any], opened: contextlib.ExitStack
) -> tuple[Archiver, CycleEngine]:
    choice, thresholds = choice_from(values), TopicThresholds(told)
    connection = connection_from(values, client_id="gapless-archive")
    engine_settings = EngineSettings.of(values)
    address, access = told.archive, access_from(values)
    if address.folder is not None:
        address = replace(address, folder=address.folder.absolute())  # Spark's tasks run in another folder
    engine = opened.enter_context(CycleEngine(engine_settings, connection))
    archiver = Archiver(
        told,
        timeout_seconds=engine_settings.connect_timeout_seconds,
        connection=connection,
        target=Target(place=open_place(address, access), address=address, access=access, region=told.region),
        choice=choice,
        thresholds=thresholds,
        engine=engine,
    )
    return archiver, engine


def _write_report(path: Path | None, report: Mapping[str, Any]) -> None:
    if path is not None:
        write_atomically(path, json.dumps(report, indent=2, ensure_ascii=False).encode() + b"\n", what="report")
