"""``gapless doctor``: settings in, observations and findings, then report, page and exit code.

A package adds checks of its own as entry points of the group ``gapless.doctor_checks``: functions that receive the
settings of the group Link by name, and return findings.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from gapless_api.base.files import check_output
from gapless_api.cli.json_output import print_json, write_report
from gapless_api.wire.doctor_report import DOCTOR_REPORT, DoctorFinding, shorten_report
from gapless_mirror.doctor.findings.all_findings import findings_of, in_order
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observing.observe import observe
from gapless_mirror.doctor.observing.remembered import remembered_in
from gapless_mirror.doctor.page import page
from gapless_mirror.doctor.report import report_of

if TYPE_CHECKING:
    from gapless_mirror.doctor.settings import DoctorSettings

_ENTRY_POINTS = "gapless.doctor_checks"


class Check(Protocol):
    """The type of an entry point."""

    def __call__(self, settings: Mapping[str, Any]) -> Sequence[DoctorFinding]:
        """Return findings about this machine."""


def link_findings(settings: Mapping[str, Any] | None) -> list[DoctorFinding]:
    """Run the checks of installed packages on this machine's link; ``None`` for no link."""
    if settings is None:
        return []
    entry_points = metadata.entry_points(group=_ENTRY_POINTS)
    if not entry_points:
        message = "The link was not checked: no installed package has a check for it."
        action = "Run gapless doctor where gapless-sender is installed, such as in the sender's image."
        return [finding(FindingId.NOT_CHECKED, "local", message, where=str(settings["targetIP"]), action=action)]
    findings: list[DoctorFinding] = []
    for entry_point in entry_points:
        check: Check = entry_point.load()
        findings += check(settings)
    return findings


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
    write_report(settings.report, DOCTOR_REPORT.to_json(report))
    if settings.is_json:
        print_json(DOCTOR_REPORT.to_json(report), "findings")
    else:
        sys.stdout.write(page(report))
    if settings.report_line:
        sys.stderr.write(DOCTOR_REPORT.to_line(shorten_report(report)) + "\n")
    return report.exit_code
