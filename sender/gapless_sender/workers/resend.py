"""One run of ``gapless resend``: connects the parts, in one process or several, and reports the outcome.

Must not know how any part does its work.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import (
    BundleError,
    ConfigurationError,
    GaplessError,
    LinkError,
    LocalStorageError,
    StoppedError,
    UndeliveredError,
    error_outcome,
)
from gapless_api.base.exit_codes import ExitCode
from gapless_api.wire.resend_report import Outcome, ReadBundle
from gapless_sender.base.lazy_log import log, start_log
from gapless_sender.base.process_memory import forbid_core_dumps
from gapless_sender.base.sharding import Shard, shard_of, with_own_files
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.pace.chosen_rate import check_rate, with_profile
from gapless_sender.pace.rate_file import with_rates
from gapless_sender.replay.checkpoint import Checkpoint, load, locked, remove_shard_files
from gapless_sender.replay.progress import ProgressView
from gapless_sender.replay.report import Account, final_outcome, report
from gapless_sender.replay.report_output import write_report, write_report_line
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.settings.own_files import check_shard_files
from gapless_sender.settings.resend import ResendSettings
from gapless_sender.source.plan import Selection, select, upstream_topics
from gapless_sender.workers.partition_work import plan_without_kafka

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_api.bundle.form import Bundle
    from gapless_kafka.access.connection import KafkaConnection


def run(found: Resolved) -> int:
    """Resend what the settings select; print the outcome, and return the exit code.

    Raises:
        GaplessError: with the message for the user; the report, if one is requested, has been written.
    """
    started, began = time.monotonic(), datetime.now(UTC)
    shutdown = Shutdown()
    shutdown.listen()
    account = Account()
    selection: Selection | None = None
    bundle: ReadBundle | None = None
    report_path: Path | None = None
    report_line: bool = found.values["reportLine"]
    problem: GaplessError | None = None
    try:
        shard = shard_of(found.values["shardCount"], found.values["shardIndex"], os.environ)
        values = with_own_files(found.values, shard)
        check_shard_files(values, found.file)
        report_path = values["report"]
        _check_report_folder(report_path)
        _log_ineffective_settings(found)
        paced = with_rates(with_profile(found, values))
        settings = ResendSettings.of(paced)

        def connection() -> KafkaConnection:
            from gapless_kafka.access.connection import connection_from  # noqa: PLC0415 -- slow to load

            return connection_from(values, client_id=settings.kafka.client_id)

        with shutdown.interruptible():  # Reading a large bundle takes time, and changes nothing.
            selection, bundle = _selection(settings, shard)
            if settings.selection.plan:
                from gapless_sender.workers.estimate import show_plan  # noqa: PLC0415 -- only --plan needs it

                return show_plan(settings, connection, selection, bundle, shutdown)
        check_rate(found, is_limited=settings.pace.is_limited, unlimited=settings.pace.unlimited)
        was_complete = _work(settings, connection, selection, account, shutdown)
        has_report = report_path is not None or report_line
        outcome, exit_code, message = final_outcome(
            account, was_complete=was_complete, has_report=has_report, skipped=selection.skipped
        )
        message = " Warning: ".join((message, *account.warnings))
    except GaplessError as error:
        outcome = Outcome.STOPPED if isinstance(error, StoppedError) else Outcome.FAILED
        exit_code, message = error_outcome(error).exit_code, str(error)
        problem = error
        for warning in account.warnings:
            log("warning", warning)
    final_report = report(
        outcome=outcome,
        exit_code=exit_code,
        reason=error_outcome(problem).condition_reason if problem is not None else None,
        message=message,
        selection=selection,
        bundle=bundle,
        account=account,
        started=began.isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
    )
    if report_line:
        write_report_line(final_report)
    if report_path is not None:
        write_report(report_path, final_report)
    if problem is not None:
        raise problem
    if exit_code != ExitCode.DONE:
        raise UndeliveredError(message)
    sys.stderr.write(f"{message}\n")
    return exit_code


def _work(
    settings: ResendSettings,
    connect: Callable[[], KafkaConnection],
    selection: Selection,
    account: Account,
    shutdown: Shutdown,
) -> bool:
    """Run the resend; afterwards `account` has what was done, also when an error ends the work.

    Returns:
        Whether the checkpoint had recorded the resend as complete.
    """
    from gapless_sender.workers.partition_worker import ResendContext  # noqa: PLC0415 -- slow to load
    from gapless_sender.workers.runtime import SenderRuntime  # noqa: PLC0415 -- slow to load
    from gapless_sender.workers.single_process import run_single_process  # noqa: PLC0415 -- slow to load

    forbid_core_dumps()
    # Batches create hundreds of thousands of lists, none of them in a cycle: searching them for cycles took 3 % of a
    # resend.
    gc.freeze()
    gc.set_threshold(50_000)
    connection = connect()
    path = settings.safety.checkpoint
    if path is not None:
        shutdown.keeps_progress()
    with ExitStack() as stack:
        runtime = SenderRuntime.create(settings, shutdown, selection.shard)
        stack.callback(runtime.link.close)
        if not selection.requests and selection.all_partitions_of is None:
            return False
        progress, checkpoint = Progress(), None
        if path is not None:
            stack.enter_context(locked(path))
            progress = load(path, selection.identity, recheck=settings.archive is not None)
            if progress.complete:
                _account_for_known(account, selection, progress)
                return True
            checkpoint = Checkpoint(path, selection.identity, progress)
            stack.callback(checkpoint.close)
            remove_shard_files(path)
        view = ProgressView(
            interval_seconds=settings.output.progress_seconds,
            statistics_seconds=settings.output.statistics_seconds,
            sender_id=settings.output.id,
            shard=selection.shard,
        )
        processes = settings.safety.parallelism
        if selection.all_partitions_of is None:
            processes = min(processes, len(selection.requests))
        resend = ResendContext(selection, connection, progress, checkpoint, view, account)
        try:
            if processes > 1:
                from gapless_sender.workers.worker_pool import WorkerPool  # noqa: PLC0415 -- only several processes need it

                WorkerPool(runtime, resend, processes).run()
            else:
                run_single_process(runtime, resend)
        except GaplessError:
            if not account.partitions:  # It ended before the partitions were planned.
                with suppress(GaplessError):
                    _account_for_known(account, selection, progress)
            raise
        _check_warnings(settings, account)
        if checkpoint is not None:
            progress.complete = True
            checkpoint.rewrite()
            remove_shard_files(checkpoint.path)
        return False


def _check_warnings(settings: ResendSettings, account: Account) -> None:
    """Check that nothing is doubtful, if the link is strict. Raises LinkError."""
    if settings.link.strict_link and account.warnings:
        raise LinkError(" ".join(account.warnings))


def _account_for_known(account: Account, selection: Selection, progress: Progress) -> None:
    """Add to `account` what is known without Kafka. Raises ConfigurationError when the checkpoint does not fit."""
    account.partitions = [work.result for work in plan_without_kafka(selection, progress)]
    account.begin(account.totals)


def _selection(settings: ResendSettings, shard: Shard) -> tuple[Selection, ReadBundle | None]:
    """Return what to resend, and the bundle for the report."""
    chosen = settings.selection
    file, required_digest = chosen.bundle, chosen.bundle_sha256
    if file is None:
        for name, value in (
            ("verifyKey", chosen.verify_key),
            ("trustedKeys", chosen.trusted_keys),
            ("bundleSha256", required_digest),
        ):
            if value is not None:
                raise ConfigurationError(f"{name} is set without a bundle; remove it, or give the bundle it is for.")
        _check_topics(settings, None)
        return select(chosen, None, shard=shard), None
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- slow to load

    bundle = read_bundle(file, verification_key=chosen.verify_key)
    if chosen.trusted_keys is not None:
        from gapless_api.bundle.signature import check_trusted  # noqa: PLC0415 -- cryptography is slow to import

        check_trusted(bundle.metadata, chosen.trusted_keys, bundle=str(file))
    if bundle.repeated:
        log("warning", "the bundle lists offsets more than once", message=bundle.repeated_sentence)
    digest = bundle.sha256
    if required_digest is not None and digest != required_digest:
        raise BundleError(
            f"The bundle {file} has the digest {digest}, but {required_digest} is required (bundleSha256); give the "
            f"right bundle, or correct bundleSha256."
        )
    _check_topics(settings, bundle)
    selection = select(chosen, bundle, bundle_digest=digest, shard=shard)
    bundle_entry = ReadBundle(
        file=str(file),
        type=str(bundle.kind),
        id=bundle.metadata.id if bundle.metadata is not None else None,
        sha256=digest,
    )
    if selection.skipped:
        shown = ", ".join(f"{entry.topic}/{entry.partition}" for entry in selection.skipped[:20])
        more = len(selection.skipped) - 20
        log(
            "warning",
            "entries of the bundle outside the partition window are skipped",
            partitions=shown + (f" and {more} more" if more > 0 else ""),
            window=str(selection.window),
        )
    return selection, bundle_entry


def _check_topics(settings: ResendSettings, bundle: Bundle | None) -> None:
    """Check that every topic may be read. Raises ConfigurationError."""
    topics, what = upstream_topics(settings.selection, bundle), "The bundle" if bundle is not None else "The resend"
    allowed, archive = settings.kafka.allowed_topics, settings.archive
    if allowed is not None:
        allowed.check(topics, what=what)
    if archive is not None:
        archive.bounds.check(archive.region, topics, what=what)


def _log_ineffective_settings(found: Resolved) -> None:
    """Log the settings that were given and have no effect."""
    start_log(found)
    without_effect = [name for name in ("limit", "inputFilterTimeout") if name in found.sources]
    if without_effect:
        log("info", "settings are accepted and have no effect", settings=", ".join(without_effect))


def _check_report_folder(path: Path | None) -> None:
    """Check before anything is sent that the report can be written."""
    if path is not None and not os.access(path.parent, os.W_OK | os.X_OK):
        raise LocalStorageError(
            f"The report {path} cannot be written (its folder is missing or not writable); give another path."
        )
