"""Owns what the commands share: settings in, the job, then bundle, report, table and exit code.

Must not know what a job computes, nor who reads for it. Nothing is written before the job has finished, except a
report of why it did not.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import GaplessError, StoppedError, raised_by_handler
from gapless_api.base.files import check_output, write_atomically
from gapless_api.base.log import configure_logging
from gapless_api.bundle.form import BundleKind
from gapless_api.bundle.signature import load_signer
from gapless_api.bundle.writer import write_bundle
from gapless_api.codec.canonical import moment_text
from gapless_api.wire.scan_result import SCAN_REPORT
from gapless_spark.model.outcome import Conclusion, exit_code_of, outcome_of
from gapless_spark.output.bundle_place import BundlePlace
from gapless_spark.output.comparison import compared, say_comparison
from gapless_spark.output.own_files import check_files
from gapless_spark.output.report_page.output import told_by_page, write_page
from gapless_spark.output.result_log import write_result
from gapless_spark.output.tables import show_results
from gapless_spark.runtime.job import Job, conclude
from gapless_spark.settings.typed import JobSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from gapless_api.base.settings import Resolved
    from gapless_api.bundle.form import BundleMetadata
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.settings.typed import OutputSettings


def run(job: Job, settings: Resolved) -> int:
    """Run `job` and return the exit code.

    Raises:
        GaplessError: the job did not finish, or some records could not be read; the report, if asked for, says so too.
    """
    told = JobSettings.of(settings.values)
    output = told.output
    check_files(settings)  # before a log or a report could be written into one of them
    configure_logging(output.log_level, output.log_file_name)
    say_what_is_ignored(settings)
    collect_rarely()
    started = time.monotonic()
    created = datetime.now(UTC)
    head: dict[str, Any] = {
        SCAN_REPORT[0]: SCAN_REPORT[1],
        "command": job.command,
        "created": moment_text(created),
        "topics": list(job.topics),
    }
    with BundlePlace(output, told.store) as place:
        try:
            with stopped_by_signals(lambda: job.earlier.written):
                _check_outputs(output, place)
                cut, conclusion = conclude(job, told, head)
                # Before the new bundle is written, which may take the older one's place.
                reconciliation = compared(conclusion, output.compare_with, told.store)
                metadata = _write_bundle(job, conclusion, cut, output, created, place.file)
                place.deliver()
        except GaplessError as error:
            tail = {"outcome": outcome_of(error), "exit_code": exit_code_of(error), "message": str(error)}
            failed = {**head, **tail, "seconds": _since(started)}
            if output.result_lines:
                write_result(failed)
            write_report(output.report, failed)
            raise
        unread = conclusion.error()
        report = {
            **head,
            "outcome": conclusion.outcome,
            "exit_code": exit_code_of(unread),
            "message": conclusion.sentence,
            "missing": conclusion.missing,
            **conclusion.details,
            "partitions": conclusion.partitions,
            **reconciliation,
            "bundle": {"file": place.name, "id": metadata.id, "sha256": metadata.sha256, "missing": metadata.missing},
            "seconds": _since(started),
        }
        if output.result_lines:
            write_result(report, place.file, most_bundle_bytes=output.result_bundle_limit)
    unwritten = _write_files(report, conclusion, told)
    failure = unwritten or unread
    needs_stdout = output.bundle is None or output.result_lines
    stream = sys.stderr if needs_stdout else sys.stdout
    show_results(conclusion, stream, read_by=head["read_by"], with_sentence=failure is None or failure is unwritten)
    say_comparison(reconciliation, stream)
    _log().info(
        job.command,
        outcome=conclusion.outcome,
        missing=conclusion.missing,
        read_by=head["read_by"],
        seconds=_since(started),
    )
    if failure is not None:
        raise failure
    return exit_code_of(None)


def _write_bundle(  # noqa: PLR0913, PLR0917 -- what a bundle says
    job: Job, conclusion: Conclusion, cut: Cut, output: OutputSettings, created: datetime, file: Path | None
) -> BundleMetadata:
    source = {"command": f"gapless {job.command}", "topics": ",".join(job.topics), "cluster": cut.cluster_id}
    source |= conclusion.source
    if output.source_name:
        source["name"] = output.source_name
    return write_bundle(
        file,
        BundleKind(output.limit),
        conclusion.results if conclusion.listed is None else conclusion.listed,
        created=created,
        source=source,
        inferred=conclusion.inferred,
        signing_key=output.signing_key,
    )


def _write_files(report: dict[str, Any], conclusion: Conclusion, settings: JobSettings) -> GaplessError | None:
    """Write the report, for which programs wait, and only then the page; return why that is not there.

    Raises:
        LocalStorageError: not even the report can be written.
    """
    output = settings.output
    full = report
    try:
        full = told_by_page(report, conclusion, output.html)
        write_report(output.report, full)
        write_page(full, output.html, settings.kafka.bootstrap_servers)
    except GaplessError as error:
        write_report(output.report, {**full, **spoiled(report, error)})
        return error
    return None


def _check_outputs(output: OutputSettings, place: BundlePlace) -> None:
    """Find out before the work what would spoil its result."""
    place.check()
    files = {"bundle": place.file, "report": output.report, "page": output.html}
    for what, path in files.items():
        check_output(what, path)
    if output.signing_key is not None:
        load_signer(output.signing_key)


def write_report(path: Path | None, report: dict[str, Any]) -> None:
    """Write `report` to `path`, if there is one. Raises LocalStorageError."""
    if path is not None:
        write_atomically(path, json.dumps(report, indent=2, ensure_ascii=False).encode() + b"\n", what="report")


def spoiled(report: Mapping[str, Any], error: GaplessError) -> dict[str, Any]:
    """What a report says otherwise when the work is done, but something beside it could not be written."""
    return {"exit_code": exit_code_of(error), "message": f"{report['message']} But: {error}"}


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)


def say_what_is_ignored(settings: Resolved) -> None:
    """Log which settings have no meaning here."""
    if settings.ignored:
        _log().info("settings of other programs are passed over", settings=settings.ignored)
    if settings.unknown_variables:
        _log().warning("environment variables mean nothing here", variables=settings.unknown_variables)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()


@contextlib.contextmanager
def stopped_by_signals(written: Callable[[], str]) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into StoppedError. Nothing is half-written then, and Java ends with us.

    Args:
        written: what was written already; empty for nothing.
    """

    def sentence(name: str) -> str:
        if not written():
            return f"Stopped by {name}; nothing was written."
        return f"Stopped by {name} after writing {written()}; run again, which then reads only what is new since."

    def stop(*_: object) -> None:
        raise StoppedError(sentence("SIGTERM"), by_terminal=False)

    previous: Any = None
    with contextlib.suppress(ValueError):  # not the main thread: whoever runs us there handles signals
        previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (KeyboardInterrupt, SystemError) as error:
        raised = raised_by_handler(error)
        if isinstance(raised, StoppedError):
            raise raised from None
        if isinstance(raised, KeyboardInterrupt):
            raise StoppedError(sentence("SIGINT"), by_terminal=True) from None
        raise
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
