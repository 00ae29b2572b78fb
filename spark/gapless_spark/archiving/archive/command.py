"""``gapless archive``: settings, cycles until all is archived or a signal arrives, report, table, exit code.

Must not know how a cycle works.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import GaplessError, UndeliveredError
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.cli.json_output import write_report
from gapless_api.cli.reading_progress import ReadingProgress
from gapless_api.codec.canonical import moment_text
from gapless_archive.store.access import access_from
from gapless_archive.store.places import open_place
from gapless_kafka.access.connection import connection_from
from gapless_kafka.topics.topic_choice import choice_from
from gapless_spark.archiving.archive.account import (
    TopicAccount,
    loss_sentence,
    newest_record,
    readable_bytes,
    summary_sentence,
    topics_as_json,
)
from gapless_spark.archiving.archive.archiver import Archiver
from gapless_spark.archiving.archive.continuous import run_until_stopped
from gapless_spark.archiving.archive.engines import CycleEngine
from gapless_spark.archiving.archive.once import archive_once
from gapless_spark.archiving.archive.reporter import StatusReporter
from gapless_spark.archiving.archive.shutdown import Shutdown
from gapless_spark.archiving.archive.thresholds import TopicThresholds
from gapless_spark.archiving.archive.topics import Target
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.settings.archive import ArchiveSettings
from gapless_spark.settings.engine import EngineSettings

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved


_MAX_ROWS = 60
_HEADINGS = ("segments", "records", "content", "stored", "newest record", "lag", "lost")


def show_account(accounts: Mapping[str, TopicAccount], stream: IO[str], text: str) -> None:
    """Write a table of the topics, and `text` below it."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("topic", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for topic, account in sorted(accounts.items(), key=lambda item: (-item[1].records, item[0]))[:_MAX_ROWS]:
        table.add_row(
            Text(topic),
            f"{account.segments:,}",
            f"{account.records:,}",
            readable_bytes(account.bytes),
            readable_bytes(account.stored_bytes),
            newest_record(account) or "-",
            f"{account.lag:,}",
            f"{account.lost_offsets:,}",
            style="" if account.segments or account.lost else "dim",
        )
    if accounts:
        console.print(table)
    if len(accounts) > _MAX_ROWS:
        console.print(f"… and {len(accounts) - _MAX_ROWS} more topics; --report lists all.", markup=False)
    if text:
        console.print(text, markup=False)


PEER_LAYOUT_WARNING = (
    "the layout kafka-replicator stores null as empty and no timestamp types: tombstones come back as empty values; "
    "archive compacted topics with --layout=gapless"
)
REPORT = ("gapless_archive_report", 1)
"""The member of the report that holds its version."""


def run(settings: Resolved) -> int:
    """Archive according to `settings` and return the exit code.

    Raises:
        UndeliveredError: everything was archived except records that Kafka had deleted before, or that cannot be read.
        GaplessError: Kafka cannot be read, or the archive cannot be written; a requested report
            contains the reason.
    """
    from gapless_spark.output.jobs import log_ignored_settings  # noqa: PLC0415 -- slow to import

    options = ArchiveSettings.of(settings.values)
    configure_logging(options.log_level, options.log_file_name)
    log_ignored_settings(settings)
    if options.layout == "kafka-replicator":
        _log().warning(PEER_LAYOUT_WARNING)
    collect_rarely()
    started = time.monotonic()
    report: dict[str, Any] = {
        REPORT[0]: REPORT[1],
        "command": "archive",
        "created": moment_text(datetime.now(UTC)),
        "archive": str(options.archive),
        "region": options.region,
    }
    failure: GaplessError | None = None
    with contextlib.ExitStack() as stack:
        check_output("report", options.report)
        archiver, engine = _open(options, settings.values, stack)
        shutdown = stack.enter_context(Shutdown(lambda: summary_sentence(archiver.topics.accounts, up_to_date="")))
        try:
            reporter = stack.enter_context(StatusReporter(options.progress_interval_seconds, options.metrics_port))
            if options.once:
                with ReadingProgress("archive", interval_seconds=options.progress_interval_seconds) as progress:
                    archive_once(archiver, engine, options.cycle_bytes, progress, reporter)
            else:
                run_until_stopped(archiver, engine, shutdown, options, reporter)
        except GaplessError as error:
            failure = error
        archiver.finish()
        report["read_by"] = engine.read_by
    accounts = archiver.topics.accounts
    lost = loss_sentence(accounts)
    text = summary_sentence(accounts, up_to_date="Nothing to archive: everything in Kafka is in the archive.")
    if failure is None and lost:
        failure = UndeliveredError(f"{text} {lost}")
    if isinstance(failure, UndeliveredError):
        outcome = _incomplete_outcome(accounts)
    elif failure is not None:
        outcome = outcome_of(failure)
    else:
        outcome = "archived" if any(account.segments for account in accounts.values()) else "nothing-to-do"
    report |= {
        "outcome": outcome,
        "exit_code": exit_code_of(failure),
        "message": str(failure) if failure is not None else text,
        "topics": topics_as_json(accounts),
        "seconds": round(time.monotonic() - started, 3),
    }
    write_report(options.report, report)
    show_account(accounts, sys.stdout, text if failure is None else "")
    if failure is not None:
        raise failure
    return exit_code_of(None)


def _incomplete_outcome(accounts: Mapping[str, TopicAccount]) -> str:
    if any(account.truncated for account in accounts.values()):
        return "log-truncated"
    return "records-lost" if any(account.lost for account in accounts.values()) else "partitions-stopped"


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()


def _open(
    options: ArchiveSettings, values: Mapping[str, Any], stack: contextlib.ExitStack
) -> tuple[Archiver, CycleEngine]:
    choice, thresholds = choice_from(values), TopicThresholds(options)
    connection = connection_from(values, client_id="gapless-archive")
    engine_settings = EngineSettings.of(values)
    address, access = options.archive, access_from(values)
    if address.folder is not None:
        address = replace(address, folder=address.folder.absolute())  # Spark's tasks run in another folder
    engine = stack.enter_context(CycleEngine(engine_settings, connection))
    archiver = Archiver(
        options,
        timeout_seconds=engine_settings.connect_timeout_seconds,
        connection=connection,
        target=Target(
            place=open_place(address, access),
            address=address,
            access=access,
            region=options.region,
            bounds=ArchiveBounds.of(values),
        ),
        choice=choice,
        thresholds=thresholds,
        engine=engine,
    )
    return archiver, engine
