"""Owns ``gapless verify``: what has become of the gaps of an older bundle, as table, sentence, report and exit code.

Must not know how a scan or an audit finds what is missing, nor when a gap counts as closed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError, UndeliveredError
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.bundle.reconciliation import COUNTS, NewerFinding, reconcile
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.resend_report_files import read_resend_reports
from gapless_api.wire.scan_result import VERIFY_REPORT
from gapless_archive.store.access import access_from
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.output.comparison import finding_of, older_bundle
from gapless_spark.output.own_files import check_files
from gapless_spark.output.report_page.output import write_page_of_verify
from gapless_spark.output.tables import READERS
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.settings.typed import JobSettings, VerifySettings
from gapless_spark.verify.settings import NEEDED_TO_LOOK, VERIFY

if TYPE_CHECKING:
    from pathlib import Path

    from gapless_api.base.settings import Resolved
    from gapless_api.bundle.form import Bundle
    from gapless_api.bundle.reconciliation import Reconciliation
    from gapless_archive.store.object_store import ObjectAddress

_ROWS = 60
_LOOKS = frozenset({"gapless scan", "gapless create", "gapless audit"})
"""What the source of a bundle says that was made of a look at Kafka."""


def run(old: Path | ObjectAddress, settings: Resolved) -> int:
    """Compare as `settings` say and return the exit code.

    Raises:
        UndeliveredError: something of the bundle `old` is open, or nobody has looked at it.
        GaplessError: the comparison could not be made; the report, if asked for, says so too.
    """
    from gapless_spark.output.jobs import log_ignored_settings, spoiled, write_report  # noqa: PLC0415 -- slow to import

    told, chosen = JobSettings.of(settings.values), VerifySettings.of(settings.values)
    output = told.output
    check_files(settings, OLD=old)  # before a log or a report could be written into one of them
    configure_logging(output.log_level, output.log_file_name)
    log_ignored_settings(settings)
    started = time.monotonic()
    report: dict[str, Any] = {
        VERIFY_REPORT[0]: VERIFY_REPORT[1],
        "command": "verify",
        "created": moment_text(datetime.now(UTC)),
        "older": str(old),
        "against": str(chosen.against),
    }
    try:
        check_output("report", output.report)
        check_output("page", output.html)
        found = _reconciled(old, settings, report)
    except GaplessError as error:
        report |= {"outcome": outcome_of(error), "exit_code": exit_code_of(error), "message": str(error)}
        write_report(output.report, {**report, "seconds": round(time.monotonic() - started, 3)})
        raise
    left = None if found.settled else UndeliveredError(found.sentence())
    report |= {
        "outcome": "settled" if found.settled else "gaps-left",
        "exit_code": exit_code_of(left),
        "message": found.sentence(),
        "reconciliation": found.as_json(most_partitions=len(found.partitions)),
        "seconds": round(time.monotonic() - started, 3),
    }
    write_report(output.report, report)
    _show(found, sys.stdout, read_by=report.get("read_by"))
    try:
        write_page_of_verify(report, output.html, told.kafka.bootstrap_servers)
    except GaplessError as error:
        write_report(output.report, {**report, **spoiled(report, error)})
        raise
    if left is not None:
        raise left
    return exit_code_of(None)


def _reconciled(old: Path | ObjectAddress, settings: Resolved, report: dict[str, Any]) -> Reconciliation:
    chosen, store = VerifySettings.of(settings.values), access_from(settings.values)
    older = older_bundle(old, store)  # first: a look at Kafka takes longer than to see that a file is not there
    resends = read_resend_reports(chosen.resend_report)
    if isinstance(chosen.against, str):
        newer = _look(settings, report)
    else:
        bundle = older_bundle(chosen.against, store)
        _check_order(older, bundle, names=(str(old), str(chosen.against)))
        newer = NewerFinding.of_bundle(bundle)
    return reconcile(older, newer, resends)


def _check_order(older: Bundle, newer: Bundle, *, names: tuple[str, str]) -> None:
    """Make sure that the two were not taken for each other. Raises ConfigurationError."""
    before, after = _looked_at(older), _looked_at(newer)
    if before is not None and after is not None and after < before:
        raise ConfigurationError(
            f"The bundle {names[1]} was created at {moment_text(after)}, before {names[0]} ({moment_text(before)}), so "
            f"it cannot show that gaps have closed; exchange the two, or give a newer bundle with --against=FILE."
        )


def _looked_at(bundle: Bundle) -> datetime | None:
    """When a scan or an audit made `bundle`; of what tools and other programs made, nobody knows."""
    metadata = bundle.metadata
    return metadata.created if metadata is not None and metadata.source.get("command") in _LOOKS else None


def _look(settings: Resolved, report: dict[str, Any]) -> NewerFinding:
    """Scan or audit now, without a bundle."""
    from gapless_spark.output.jobs import stop_on_signals  # noqa: PLC0415
    from gapless_spark.runtime.job import conclude  # noqa: PLC0415 -- a look at Kafka is rarely needed

    against, given = settings.values["against"], settings.values
    for name in NEEDED_TO_LOOK:
        if given[name] is None:
            raise ConfigurationError(
                f"The setting {name} is missing, which verify needs to look again; give --{_kebab(name)}=…, or a newer "
                f"bundle with --against=FILE."
            )
    table = SCAN if against == "scan" else AUDIT
    values = {**{setting.name: setting.default for setting in table.settings}, **given}
    if against == "scan":
        from gapless_spark.scan.command import job_of as scan_job  # noqa: PLC0415

        if len(values["topics"]) > 1:
            raise ConfigurationError("A scan reads one gaps topic; give one with --topics, or use --against=audit.")
        job, completed = scan_job(replace(settings, values={**values, "topic": values["topics"][0]}))
        values = completed.values
    else:
        from gapless_spark.audit.command import job_of as audit_job  # noqa: PLC0415

        job = audit_job(replace(settings, values=values))
    report["topics"] = list(job.topics)
    with stop_on_signals(lambda: job.previous.written):
        _, conclusion = conclude(job, JobSettings.of(values), report)
    report["found"] = {"outcome": conclusion.outcome, "message": conclusion.sentence, "missing": conclusion.missing}
    return finding_of(conclusion)


def _kebab(name: str) -> str:
    return next(setting for setting in VERIFY.settings if setting.name == name).options[0].removeprefix("--")


def _show(found: Reconciliation, stream: IO[str], *, read_by: str | None) -> None:
    """Write a table of the partitions, those first that are not settled, and the sentence unless it is an error."""
    from rich.console import Console  # noqa: PLC0415 -- slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else 160)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("partition", no_wrap=True)
    for heading in (*COUNTS, "first open or unknown"):
        table.add_column(heading, justify="right", no_wrap=True)
    for partition in sorted(found.partitions, key=lambda each: not (each.open or each.unknown))[:_ROWS]:
        left = (*partition.first_open, *partition.first_unknown)
        first = "-" if not left else f"{left[0].first}" if left[0].size == 1 else f"{left[0].first} to {left[0].last}"
        numbers = [f"{getattr(partition, name):,}" for name in COUNTS]
        style = "" if partition.open or partition.unknown else "dim"
        table.add_row(Text(f"{partition.topic}/{partition.partition}"), *numbers, first, style=style)
    if found.partitions:
        console.print(table)
    if len(found.partitions) > _ROWS:
        console.print(f"… and {len(found.partitions) - _ROWS} more partitions; --report lists all.", markup=False)
    if read_by is not None:
        console.print(READERS[read_by], style="dim")
    if found.settled:
        console.print(found.sentence(), markup=False)
