"""Owns ``gapless doctor``: settings in, observations and findings, then report, page and exit code."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from gapless_api.base.files import check_output, write_atomically
from gapless_api.wire.doctor_report import DOCTOR_REPORT, shorten_report
from gapless_mirror.doctor.checks import link_findings
from gapless_mirror.doctor.findings.all_findings import findings_of, in_order
from gapless_mirror.doctor.observing.observe import observe
from gapless_mirror.doctor.observing.remembered import remembered_in
from gapless_mirror.doctor.page import page
from gapless_mirror.doctor.report import report_of

if TYPE_CHECKING:
    from gapless_mirror.doctor.settings import DoctorSettings


def run(settings: DoctorSettings) -> int:
    """Run all checks, write the report or the page, and return the exit code.

    Raises:
        ConfigurationError: settings are wrong.
        LocalStorageError: the report cannot be written.
    """
    check_output("report", settings.report)
    remembered = remembered_in(settings.remembered, settings.report)
    local_findings = link_findings(settings.link)
    seen = observe(settings, remembered)
    report = report_of(seen, in_order([*findings_of(seen), *local_findings]))
    if settings.report is not None or settings.is_json:
        text = json.dumps(DOCTOR_REPORT.to_json(report), indent=2, ensure_ascii=False) + "\n"
        if settings.report is not None:
            write_atomically(settings.report, text.encode(), what="report")
        if settings.is_json:
            sys.stdout.write(text)
    if not settings.is_json:
        sys.stdout.write(page(report))
    if settings.report_line:
        sys.stderr.write(DOCTOR_REPORT.to_line(shorten_report(report)) + "\n")
    return report.exit_code
