"""Owns the checks that other packages add to the doctor; must not know any of them.

A package registers a function as an entry point of the group ``gapless.doctor_checks``. It receives the settings of the
group Link by name, and returns findings.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from gapless_mirror.doctor.kinds import FindingId, finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.wire.doctor_report import DoctorFinding

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
