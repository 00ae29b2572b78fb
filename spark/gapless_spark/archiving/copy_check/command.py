"""Owns ``gapless verify-copy``: settings in, both copies looked at and compared, then report, table and exit code.

Must not know how records are aligned.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, UndeliveredError
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.files import check_output, read_small, write_atomically
from gapless_api.base.log import configure_logging
from gapless_api.base.settings import resolve
from gapless_api.wire.copy_report import COPY_REPORT, check_copy_report, copy_report_bytes
from gapless_api.wire.form import WireError, parse_json
from gapless_archive.store.access import access_from
from gapless_kafka.access.connection import connection_from
from gapless_spark.archiving.copy_check.addresses import KafkaTopic
from gapless_spark.archiving.copy_check.archived import look_at_archive
from gapless_spark.archiving.copy_check.comparing import Comparison
from gapless_spark.archiving.copy_check.conclusion import conclude
from gapless_spark.archiving.copy_check.copies import look_at_kafka
from gapless_spark.archiving.copy_check.engines import compared
from gapless_spark.archiving.copy_check.output import show_report
from gapless_spark.archiving.copy_check.plan import alignment_of, plan_of
from gapless_spark.settings.typed import EngineSettings, VerifyCopySettings
from gapless_spark.settings.verify_copy import B_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gapless_api.base.settings import Resolved
    from gapless_api.wire.copy_report import CopyReport, Part
    from gapless_spark.archiving.copy_check.addresses import CopyOfTopic
    from gapless_spark.archiving.copy_check.copies import Copy


def run(a: CopyOfTopic, b: CopyOfTopic, settings: Resolved) -> int:
    """Compare `a` with `b` and return the exit code.

    Raises:
        UndeliveredError: the copies differ, or not everything could be compared.
        GaplessError: a copy could not be read.
    """
    from gapless_spark.output.jobs import say_what_is_ignored, stopped_by_signals  # noqa: PLC0415 -- slow to import

    told = VerifyCopySettings.of(settings.values)
    configure_logging(told.log_level, told.log_file_name)
    say_what_is_ignored(settings)
    check_output("report", told.report)
    sign = _signing(told)
    started = time.monotonic()
    with stopped_by_signals(lambda: ""):
        copies = _look_at_both(a, b, settings.values, told)
        alignment = alignment_of(*copies, told.align)
        comparison = Comparison(*copies, alignment, _parts(told), told.ignore)
        plan = plan_of(*copies, alignment)
        results, read_by = compared(comparison, plan, EngineSettings.of(settings.values))
        for copy in copies:
            copy.check_unchanged()
    seconds = time.monotonic() - started
    report = conclude(comparison, plan, results, read_by=read_by, seconds=seconds, common_only=told.common_only)
    if sign is not None:
        report = replace(report, signature=sign(copy_report_bytes(report)))
    if told.report is not None:
        content = json.dumps(COPY_REPORT.to_json(report), indent=2, ensure_ascii=False).encode() + b"\n"
        write_atomically(told.report, content, what="report")
    return _end(report)


def check(settings: Resolved) -> int:
    """Show an earlier report, and end as that comparison ended.

    Raises:
        ConfigurationError: it cannot be read, or its signature is not that of a trusted key.
        UndeliveredError: the copies differed, or not everything could be compared.
    """
    told = VerifyCopySettings.of(settings.values)
    if told.check_report is None or told.trusted_keys is None:
        raise ConfigurationError(
            "A report is checked with the keys that are trusted; give --trusted-keys=NAME:KEY with --check-report=FILE."
        )
    report = read_report(told.check_report)
    signer = check_copy_report(report, told.trusted_keys, name=str(told.check_report))
    print(f"The report of {report.created} is signed with the trusted key {signer}.")  # noqa: T201 -- the result
    return _end(report)


def read_report(file: Path) -> CopyReport:
    """Read a report. Raises ConfigurationError."""
    try:
        return COPY_REPORT.from_json(parse_json(read_small(file).decode("utf-8", "replace")))
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


def _signing(told: VerifyCopySettings) -> Callable[[bytes], str] | None:
    if told.signing_key is None:
        return None
    if told.report is None:
        raise ConfigurationError("signingKey signs the report; give --report=FILE as well.")
    from gapless_api.keys.signatures import signer_from_file  # noqa: PLC0415 -- cryptography is slow to import

    return signer_from_file(told.signing_key)


def _parts(told: VerifyCopySettings) -> tuple[Part, ...]:
    every: tuple[Part, ...] = ("key", "value", "headers", "timestamp")
    parts = tuple(part for part in every if part not in told.ignore)
    return (*parts, "timestampType") if told.timestamp_type else parts


def _look_at_both(
    a: CopyOfTopic, b: CopyOfTopic, values: Mapping[str, Any], told: VerifyCopySettings
) -> tuple[Copy, Copy]:
    """Look at both copies, at Kafka last: what was archived before is in Kafka, and not the other way round."""
    of_b = values
    if told.b_settings is not None:
        of_b = resolve(B_SETTINGS, file=told.b_settings, environment={}, options={}).values
    looks = {"a": (a, values), "b": (b, of_b)}
    found: dict[str, Copy] = {}
    for name in sorted(looks, key=lambda each: isinstance(looks[each][0], KafkaTopic)):
        address, reached_by = looks[name]
        if isinstance(address, KafkaTopic):
            if told.allowed_topics is not None:
                told.allowed_topics.check([address.topic], what="The comparison")
            connection = connection_from(
                {**reached_by, "bootstrapServers": address.bootstrap_servers}, client_id="gapless-verify-copy"
            )
            found[name] = look_at_kafka(address, connection, timeout_seconds=reached_by["connectTimeout"])
        else:
            archived = found[name] = look_at_archive(address, access_from(reached_by), region=told.region)
            if archived.note:
                _log().warning(archived.note, copy=archived.about.address)
    return found["a"], found["b"]


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
