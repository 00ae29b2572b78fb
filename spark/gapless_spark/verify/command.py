"""``gapless verify``: it checks which gaps of an older bundle have closed, and writes table, report and exit code.

Must not know how a scan or an audit finds what is missing, nor when a gap counts as closed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError, UndeliveredError
from gapless_api.base.files import check_output
from gapless_api.base.log import configure_logging
from gapless_api.base.missing_code import result_code
from gapless_api.bundle.reconciliation import COUNTS, NewerFinding, Reconciliation, reconcile
from gapless_api.cli.json_output import write_report
from gapless_api.codec.canonical import moment_text
from gapless_api.page.pages import write_verify_page
from gapless_api.wire.resend_report_files import read_resend_reports
from gapless_api.wire.scan_result import VERIFY_REPORT
from gapless_archive.store.access import access_from
from gapless_spark.model.outcome import exit_code_of, outcome_of
from gapless_spark.output.comparison import find_truncation, newer_finding, older_bundle
from gapless_spark.output.tables import MAX_ROWS, READERS, new_table, open_console, print_omitted
from gapless_spark.settings.jobs import JobSettings
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.verify.settings import VERIFY, VerifySettings

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.bundle.form import Bundle
    from gapless_archive.store.object_store import ObjectAddress

_READS_KAFKA = frozenset({"gapless scan", "gapless create", "gapless audit"})
"""The source of bundles that contain the state of Kafka at their creation."""


def run(old: Path | ObjectAddress, settings: Resolved) -> int:
    """Compare as `settings` say and return the exit code.

    Raises:
        UndeliveredError: some events of the bundle `old` are open or unknown.
        GaplessError: the comparison failed; a requested report is written in this case, too.
    """
    from gapless_spark.output.jobs import failed_output, log_ignored_settings  # noqa: PLC0415 -- slow to import

    job_settings, chosen = JobSettings.of(settings.values), VerifySettings.of(settings.values)
    output = job_settings.output
    # Before a log or a report could be written into one of them.
    VERIFY.check_files(settings.values, settings.file, **({"OLD": old} if isinstance(old, Path) else {}))
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
        found = _reconcile(old, settings, report)
    except GaplessError as error:
        report |= {"outcome": outcome_of(error), "exit_code": exit_code_of(error), "message": str(error)}
        write_report(output.report, {**report, "seconds": round(time.monotonic() - started, 3)})
        raise
    failure = None if found.settled else UndeliveredError(found.sentence())
    if output.exit_code and not found.total("unknown"):
        failure = None  # it is known what is missing
    code = exit_code_of(failure) or result_code(is_missing=not found.settled, is_requested=output.exit_code)
    report |= {
        "outcome": "settled" if found.settled else "gaps-left",
        "exit_code": code,
        "message": found.sentence(),
        "reconciliation": found.as_json(most_partitions=len(found.partitions)),
        "seconds": round(time.monotonic() - started, 3),
    }
    write_report(output.report, report)
    _show(found, sys.stdout, read_by=report.get("read_by"), with_sentence=failure is None)
    try:
        if output.html is not None:
            write_verify_page(report, output.html, job_settings.kafka.bootstrap_servers)
    except GaplessError as error:
        write_report(output.report, {**report, **failed_output(report, error)})
        raise
    if failure is not None:
        raise failure
    return code


def _reconcile(old: Path | ObjectAddress, settings: Resolved, report: dict[str, Any]) -> Reconciliation:
    chosen, store = VerifySettings.of(settings.values), access_from(settings.values)
    older = older_bundle(old, store)  # first, to find a missing file before Kafka is read
    resends = read_resend_reports(chosen.resend_report)
    if isinstance(chosen.against, str):
        newer = _read_now(older, chosen, settings, report)
    else:
        bundle = older_bundle(chosen.against, store)
        _check_order(older, bundle, names=(str(old), str(chosen.against)))
        newer = NewerFinding.of_bundle(bundle)
    return reconcile(older, newer, resends)


def _check_order(older: Bundle, newer: Bundle, *, names: tuple[str, str]) -> None:
    """Check that the two bundles are not exchanged. Raises ConfigurationError."""
    before, after = _created_at(older), _created_at(newer)
    if before is not None and after is not None and after < before:
        raise ConfigurationError(
            f"The bundle {names[1]} was created at {moment_text(after)}, before {names[0]} ({moment_text(before)}), so "
            f"it cannot show that gaps have closed; exchange the bundles, or give a newer one with --against=FILE."
        )


def _created_at(bundle: Bundle) -> datetime | None:
    """Return when a scan or an audit created `bundle`; ``None`` if another program created it."""
    metadata = bundle.metadata
    return metadata.created if metadata is not None and metadata.source.get("command") in _READS_KAFKA else None


def _read_now(older: Bundle, chosen: VerifySettings, settings: Resolved, report: dict[str, Any]) -> NewerFinding:
    """Run a scan or an audit without writing a bundle."""
    from gapless_spark.output.jobs import stop_on_signals  # noqa: PLC0415 -- not needed to compare two bundles
    from gapless_spark.runtime.job import conclude  # noqa: PLC0415

    if chosen.bootstrap_servers is None:
        raise _missing("bootstrapServers", "--bootstrap-servers")
    if chosen.topics is None:
        raise _missing("topics", "--topics")
    table = SCAN if chosen.against == "scan" else AUDIT
    values = {**{setting.name: setting.default for setting in table.settings}, **settings.values}
    if chosen.against == "scan":
        from gapless_spark.scan.command import job_of as scan_job  # noqa: PLC0415

        if len(chosen.topics) > 1:
            raise ConfigurationError("A scan reads one gaps topic; give one with --topics, or use --against=audit.")
        job, settings = scan_job(replace(settings, values={**values, "topic": chosen.topics[0]}))
    else:
        from gapless_spark.audit.command import job_of as audit_job  # noqa: PLC0415

        settings = replace(settings, values=values)
        job = audit_job(settings)
    report["topics"] = list(job.topics)
    job_settings = JobSettings.of(settings.values)
    with stop_on_signals(lambda: job.previous.written):
        _, conclusion = conclude(job, job_settings, report)
        truncated = find_truncation(older, conclusion, job_settings.kafka.with_client_id("gapless-verify"))
    report["found"] = {"outcome": conclusion.outcome, "message": conclusion.sentence, "missing": conclusion.missing}
    return newer_finding(conclusion, truncated=truncated)


def _missing(setting: str, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"The setting {setting} is missing, which verify needs to read Kafka; give {option}=…, or a newer bundle with "
        f"--against=FILE."
    )


def _show(found: Reconciliation, stream: IO[str], *, read_by: str | None, with_sentence: bool) -> None:
    """Print a table of the partitions, unsettled ones first, and the summary unless it is the error message."""
    from rich.text import Text  # noqa: PLC0415 -- slow to import

    console = open_console(stream)
    table = new_table(["partition"], [*COUNTS, "first open or unknown"])
    for partition in sorted(found.partitions, key=lambda each: not (each.open or each.unknown))[:MAX_ROWS]:
        first = "-"
        for gap in (*partition.first_open, *partition.first_unknown)[:1]:
            first = f"{gap.first}" if gap.size == 1 else f"{gap.first} to {gap.last}"
        numbers = [f"{getattr(partition, name):,}" for name in COUNTS]
        style = "" if partition.open or partition.unknown else "dim"
        table.add_row(Text(f"{partition.topic}/{partition.partition}"), *numbers, first, style=style)
    if found.partitions:
        console.print(table)
    print_omitted(console, len(found.partitions) - MAX_ROWS)
    if read_by is not None:
        console.print(READERS[read_by], style="dim")
    if with_sentence:
        console.print(found.sentence(), markup=False)
