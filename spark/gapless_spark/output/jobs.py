"""What all commands do: run a job from its settings, then write bundle, report and table, and set the exit code.

Must not know what a job computes, nor what reads Kafka for it. Nothing is written before the job has finished, except a
report of its failure. For an object store and a log, the bundle is written to a temporary file first, because both need
the complete bundle.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gapless_api.base.collector import collect_rarely
from gapless_api.base.errors import GaplessError, StoppedError
from gapless_api.base.files import check_output, temporary_folder
from gapless_api.base.log import configure_logging
from gapless_api.base.missing_code import result_code
from gapless_api.bundle.form import BundleKind, BundleMetadata
from gapless_api.bundle.signature import load_signer
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli.json_output import write_report
from gapless_api.codec.canonical import moment_text
from gapless_api.page.pages import page_members, write_page
from gapless_api.wire.scan_result import SCAN_REPORT
from gapless_archive.store.object_store import ObjectAddress, ObjectStore, open_store
from gapless_spark.model.outcome import Conclusion, exit_code_of, outcome_of
from gapless_spark.output.comparison import compare_with_older, print_comparison
from gapless_spark.output.result_log import write_result
from gapless_spark.output.tables import show_results
from gapless_spark.runtime.job import Job, conclude
from gapless_spark.runtime.stops import keep_stop, raise_stop
from gapless_spark.settings.jobs import JobSettings

if TYPE_CHECKING:
    import tempfile

    from gapless_api.base.settings import Resolved
    from gapless_archive.store.access import S3Access
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.settings.tables import OutputSettings


class BundlePlace:
    """The place configured for the bundle; a context manager."""

    def __init__(self, output: OutputSettings, access: S3Access) -> None:
        self._access = access
        self._named = output.bundle
        self._is_for_log = output.result_lines
        self._store: ObjectStore | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.file: Path | None = self._named if isinstance(self._named, Path) else None
        """Where to write the bundle; ``None`` for standard output."""

    @property
    def name(self) -> str | None:
        """The place in the report; ``None`` for standard output and a log."""
        return None if self._named is None else str(self._named)

    def __enter__(self) -> Self:
        if isinstance(self._named, ObjectAddress) or (self._named is None and self._is_for_log):
            self._folder = temporary_folder("gapless-bundle-")
            self.file = Path(self._folder.name) / "bundle.json"
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def check(self) -> None:
        """Check the place as far as possible before the bundle is written. Raises ConfigurationError."""
        if isinstance(self._named, ObjectAddress):
            self._store = open_store(self._named.bucket, self._access)

    def deliver(self) -> None:
        """Upload the file to the object store, if the place is one.

        Raises:
            ConfigurationError: the store refuses the upload.
            StoreUnreachableError: the store does not answer.
        """
        if self._store is not None and isinstance(self._named, ObjectAddress) and self.file is not None:
            self._store.put(self._named.key, self.file)


def run(job: Job, settings: Resolved) -> int:
    """Run `job` and return the exit code.

    Raises:
        GaplessError: the job did not finish, or some records could not be read; a requested report
            is written in both cases.
    """
    job_settings = JobSettings.of(settings.values)
    output = job_settings.output
    configure_logging(output.log_level, output.log_file_name)
    log_ignored_settings(settings)
    collect_rarely()
    started = time.monotonic()
    created = datetime.now(UTC)
    head: dict[str, Any] = {
        SCAN_REPORT[0]: SCAN_REPORT[1],
        "command": job.command,
        "created": moment_text(created),
        "topics": list(job.topics),
    }
    with BundlePlace(output, job_settings.store) as place:
        try:
            with stop_on_signals(lambda: job.previous.written):
                _check_outputs(output, place)
                cut, conclusion = conclude(job, job_settings, head)
                # Before the new bundle is written, because it may replace the older one.
                kafka = job_settings.kafka.with_client_id(f"gapless-{job.command}")
                reconciliation = compare_with_older(conclusion, output.compare_with, job_settings.store, kafka)
                metadata = _write_bundle(job, conclusion, cut, output, created, place.file)
                place.deliver()
        except GaplessError as error:
            error_members = {"outcome": outcome_of(error), "exit_code": exit_code_of(error), "message": str(error)}
            failed = {**head, **error_members, "seconds": _since(started)}
            if output.result_lines:
                write_result(failed)
            write_report(output.report, failed)
            raise
        failure_of_reading = conclusion.error()
        code = exit_code_of(failure_of_reading) or result_code(
            is_missing=conclusion.is_missing_now, is_requested=output.exit_code
        )
        report = {
            **head,
            "outcome": conclusion.outcome,
            "exit_code": code,
            "message": conclusion.sentence,
            "missing": conclusion.missing,
            **conclusion.details,
            "partitions": conclusion.partitions,
            **reconciliation,
            "bundle": {"file": place.name, "id": metadata.id, "sha256": metadata.sha256, "missing": metadata.missing},
            "seconds": _since(started),
        }
        if output.result_lines:
            write_result(report, place.file, max_bundle_bytes=output.result_bundle_limit)
    failure_of_writing = _write_files(report, conclusion, job_settings)
    failure = failure_of_writing or failure_of_reading
    needs_stdout = output.bundle is None or output.result_lines
    stream = sys.stderr if needs_stdout else sys.stdout
    with_sentence = failure_of_reading is None or failure_of_writing is not None
    show_results(conclusion, stream, read_by=head["read_by"], with_sentence=with_sentence)
    print_comparison(reconciliation, stream)
    _log().info(
        job.command,
        outcome=conclusion.outcome,
        missing=conclusion.missing,
        read_by=head["read_by"],
        seconds=_since(started),
    )
    if failure is not None:
        raise failure
    return code


def _write_bundle(  # noqa: PLR0913, PLR0917 -- the content of a bundle
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
    """Write the report and then the page; return the error if the page cannot be written.

    Raises:
        LocalStorageError: the report cannot be written.
    """
    output = settings.output
    full = report
    try:
        if output.html is not None:
            full = report | page_members(conclusion.results, conclusion.inferred, conclusion.lost_between)
        write_report(output.report, full)
        if output.html is not None:
            write_page(full, output.html, settings.kafka.bootstrap_servers)
    except GaplessError as error:
        write_report(output.report, {**full, **failed_output(report, error)})
        return error
    return None


def _check_outputs(output: OutputSettings, place: BundlePlace) -> None:
    """Check before the job that its results can be written."""
    place.check()
    files = {"bundle": place.file, "report": output.report, "page": output.html}
    for what, path in files.items():
        check_output(what, path)
    if output.signing_key is not None:
        load_signer(output.signing_key)


def failed_output(report: Mapping[str, Any], error: GaplessError) -> dict[str, Any]:
    """Return the members of the report of a job that has finished, but could not write one of its other files."""
    return {"exit_code": exit_code_of(error), "message": f"{report['message']} But: {error}"}


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)


def log_ignored_settings(settings: Resolved) -> None:
    """Log the settings and environment variables that are ignored."""
    if settings.ignored:
        _log().info("settings of other programs are ignored", settings=settings.ignored)
    if settings.unknown_variables:
        _log().warning("unknown environment variables are ignored", variables=settings.unknown_variables)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()


@contextlib.contextmanager
def stop_on_signals(written: Callable[[], str]) -> Iterator[None]:
    """Turn SIGTERM and SIGINT into StoppedError, so that no file is left half-written and the JVM is stopped.

    Args:
        written: returns what was written already; empty for nothing.
    """

    def sentence(name: str) -> str:
        if not written():
            return f"Stopped by {name}; nothing was written."
        return f"Stopped by {name} after writing {written()}; the next run continues from there."

    def stop(number: int, _frame: object) -> None:
        raise_stop(StoppedError(sentence(signal.Signals(number).name), by_terminal=number == signal.SIGINT))

    previous: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # not the main thread, which handles signals
        for each in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(each) is not signal.SIG_IGN:
                previous[each] = signal.signal(each, stop)
    try:
        with keep_stop():
            yield
    except KeyboardInterrupt:  # of PySpark's own handler, until its session is there
        raise StoppedError(sentence("SIGINT"), by_terminal=True) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
