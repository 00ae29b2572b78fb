"""``gapless verify-copy``: it opens and compares both copies, and writes report, table and exit code.

Must not know how records are aligned.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_api.base.errors import ConfigurationError, UndeliveredError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output, read_small
from gapless_api.base.log import configure_logging
from gapless_api.base.settings import Resolved, resolve
from gapless_api.cli.json_output import write_report
from gapless_api.wire.copy_report import (
    COPY_REPORT,
    CopyReport,
    Difference,
    NotCompared,
    Part,
    PartitionComparison,
    Span,
    check_copy_report,
    copy_report_bytes,
    read_copy_report,
)
from gapless_api.wire.form import WireError, parse_json
from gapless_spark.archiving.verify_copy.addresses import CopyOfTopic, KafkaTopic
from gapless_spark.archiving.verify_copy.archived import open_archive_copy
from gapless_spark.archiving.verify_copy.comparing import Comparison
from gapless_spark.archiving.verify_copy.conclusion import conclude
from gapless_spark.archiving.verify_copy.copies import Copy, open_kafka_copy
from gapless_spark.archiving.verify_copy.engines import compare_copies
from gapless_spark.archiving.verify_copy.plan import alignment_of, plan_of
from gapless_spark.output.tables import MAX_ROWS, READERS, new_table, open_console, print_omitted
from gapless_spark.settings.engine import EngineSettings
from gapless_spark.settings.jobs import CopyAccess
from gapless_spark.settings.verify_copy import B_SETTINGS, VerifyCopySettings

_MAX_LISTED = 20
_COUNTS = {
    "equal": "equal",
    "different": "different",
    "only_in_a": "only in A",
    "only_in_b": "only in B",
    "moved": "moved",
}
"""Members of a partition's comparison, and their columns."""
_COMPACTED = {"compacted_in_a": "compacted in A", "compacted_in_b": "compacted in B"}
"""Further ones, if there are any such records."""


def show_report(report: CopyReport, stream: IO[str], *, with_sentence: bool) -> None:
    """Print the result; without the summary if an error message contains it."""
    console = open_console(stream)
    console.print(f"A: {report.a.address}\nB: {report.b.address}", markup=False)
    console.print(f"Aligned by {report.alignment}.", style="dim", markup=False)
    counted = dict(_COUNTS)
    if report.totals.compacted_in_a or report.totals.compacted_in_b:
        counted |= _COMPACTED
    table = new_table([], ["partition", "in A", "in B", *counted.values()])
    for partition in sorted(report.partitions, key=_is_equal)[:MAX_ROWS]:
        records = ["-" if copy is None else f"{copy.records:,}" for copy in (partition.a, partition.b)]
        counts = [f"{getattr(partition, name):,}" for name in counted]
        table.add_row(str(partition.partition), *records, *counts, style="dim" if _is_equal(partition) else "")
    if report.partitions:
        console.print(table)
    print_omitted(console, len(report.partitions) - MAX_ROWS)
    for difference in report.differences[:_MAX_LISTED]:
        console.print(_difference(difference), markup=False)
    print_omitted(console, len(report.differences) + report.differences_omitted - _MAX_LISTED, "differences")
    for compacted in report.compacted[:_MAX_LISTED]:
        console.print(_difference(compacted), markup=False)
    omitted = len(report.compacted) + report.compacted_omitted - _MAX_LISTED
    print_omitted(console, omitted, "ranges that were compacted")
    for gap in report.not_compared[:_MAX_LISTED]:
        console.print(_gap(gap), markup=False)
    print_omitted(console, len(report.not_compared) - _MAX_LISTED, "ranges that were not compared")
    if report.read_by is not None:
        console.print(READERS[report.read_by], style="dim")
    if with_sentence:
        console.print(report.message, markup=False)


def _is_equal(partition: PartitionComparison) -> bool:
    return not (partition.different or partition.only_in_a or partition.only_in_b or partition.moved)


def _difference(difference: Difference) -> str:
    noun = "record" if difference.records == 1 else "records"
    spans = (("A", difference.a), ("B", difference.b))
    offsets = " and ".join(f"{name} {_span(span)}" for name, span in spans if span is not None)
    what = {
        "onlyInA": "only in A",
        "onlyInB": "only in B",
        "different": f"different in {', '.join(difference.parts)}",
        "moved": "moved",
        "compactedInA": "compacted in A",
        "compactedInB": "compacted in B",
    }[difference.kind]
    return f"partition {difference.partition}: {difference.records:,} {noun} {what} (offset {offsets})"


def _gap(gap: NotCompared) -> str:
    detail = f": {gap.detail}" if gap.detail else ""
    return (
        f"partition {gap.partition}: offset {_span(gap.span)} not compared, {gap.reason} in {gap.side.upper()}{detail}"
    )


def _span(span: Span) -> str:
    return f"{span.first}" if span.first == span.last else f"{span.first} to {span.last}"


def run(a: CopyOfTopic, b: CopyOfTopic, settings: Resolved) -> int:
    """Compare `a` with `b` and return the exit code.

    Raises:
        UndeliveredError: the copies differ, or not everything could be compared.
        GaplessError: a copy could not be read.
    """
    from gapless_spark.output.jobs import log_ignored_settings, stop_on_signals  # noqa: PLC0415 -- slow to import

    chosen = VerifyCopySettings.of(settings.values)
    configure_logging(chosen.log_level, chosen.log_file_name)
    log_ignored_settings(settings)
    check_output("report", chosen.report)
    sign = _load_signing(chosen)
    started = time.monotonic()
    with stop_on_signals(lambda: ""):
        copies = _open_copies(a, b, CopyAccess.of(settings.values), chosen, ArchiveBounds.of(settings.values))
        alignment = alignment_of(*copies, chosen.align)
        comparison = Comparison(*copies, alignment, _parts(chosen), chosen.ignore)
        plan = plan_of(*copies, alignment)
        results, read_by = compare_copies(comparison, plan, EngineSettings.of(settings.values))
        for copy in copies:
            copy.check_unchanged()
    seconds = time.monotonic() - started
    report = conclude(comparison, plan, results, read_by=read_by, seconds=seconds, common_only=chosen.common_only)
    if sign is not None:
        report = replace(report, signature=sign(copy_report_bytes(report)))
    write_report(chosen.report, COPY_REPORT.to_json(report))
    return _end(report)


def check(settings: Resolved) -> int:
    """Print an earlier report, and return its exit code.

    Raises:
        ConfigurationError: it cannot be read, or has no signature of a trusted key.
        UndeliveredError: the copies differed, or not everything could be compared.
    """
    chosen = VerifyCopySettings.of(settings.values)
    if chosen.check_report is None or chosen.trusted_keys is None:
        raise ConfigurationError(
            "Checking a report requires trusted keys; give --trusted-keys=NAME:KEY with --check-report=FILE."
        )
    content, report = read_report(chosen.check_report)
    signer = check_copy_report(content, chosen.trusted_keys, name=str(chosen.check_report))
    print(f"The report of {report.created} is signed with the trusted key {signer}.")  # noqa: T201 -- the result
    return _end(report)


def read_report(file: Path) -> tuple[Any, CopyReport]:
    """Read a report; return its members as they stand in the file, too. Raises ConfigurationError."""
    try:
        content = parse_json(read_small(file).decode("utf-8", "replace"))
        return content, read_copy_report(content)
    except OSError as error:
        raise ConfigurationError(f"The report {file} cannot be read ({error.strerror}); give another file.") from None
    except WireError as error:
        raise ConfigurationError(f"The report {file} cannot be read ({error}); give a report of verify-copy.") from None


def _end(report: CopyReport) -> int:
    is_good = report.exit_code == ExitCode.DONE
    show_report(report, sys.stdout, with_sentence=is_good)
    if not is_good:
        raise UndeliveredError(report.message)
    return report.exit_code


def _load_signing(chosen: VerifyCopySettings) -> Callable[[bytes], str] | None:
    if chosen.signing_key is None:
        return None
    if chosen.report is None:
        raise ConfigurationError("signingKey signs the report; give --report=FILE as well.")
    from gapless_api.keys.signatures import signer_from_file  # noqa: PLC0415 -- cryptography is slow to import

    return signer_from_file(chosen.signing_key)


def _parts(chosen: VerifyCopySettings) -> tuple[Part, ...]:
    every: tuple[Part, ...] = ("key", "value", "headers", "timestamp")
    parts = tuple(part for part in every if part not in chosen.ignore)
    return (*parts, "timestampType") if chosen.timestamp_type else parts


def _open_copies(
    a: CopyOfTopic, b: CopyOfTopic, access: CopyAccess, chosen: VerifyCopySettings, bounds: ArchiveBounds
) -> tuple[Copy, Copy]:
    """Open both copies, those in Kafka last: records that were archived before are in Kafka, but not vice versa."""
    access_of_b = access
    if chosen.b_settings is not None:
        access_of_b = CopyAccess.of(resolve(B_SETTINGS, file=chosen.b_settings, environment={}, options={}).values)
    addresses = {"a": (a, access), "b": (b, access_of_b)}
    copies: dict[str, Copy] = {}
    for name in sorted(addresses, key=lambda each: isinstance(addresses[each][0], KafkaTopic)):
        address, access = addresses[name]
        if isinstance(address, KafkaTopic):
            if chosen.allowed_topics is not None:
                chosen.allowed_topics.check([address.topic], what="The comparison")
            servers = replace(access.kafka, bootstrap_servers=address.bootstrap_servers)
            connection = servers.with_client_id("gapless-verify-copy")
            copies[name] = open_kafka_copy(
                address,
                connection,
                timeout_seconds=access.connect_timeout_seconds,
                is_compaction_ignored="compacted" in chosen.ignore,
            )
        else:
            archived = copies[name] = open_archive_copy(address, access.store, region=chosen.region, bounds=bounds)
            if archived.note:
                _log().warning(archived.note, copy=archived.about.address)
    return copies["a"], copies["b"]


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
