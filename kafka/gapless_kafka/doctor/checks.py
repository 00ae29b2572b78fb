"""Owns how packages add checks of their own to the doctor; must not know any of them.

A package announces a function as an entry point of the group ``gapless.doctor_checks``. It gets the settings of the
group Link, by name, and returns findings.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from gapless_kafka.doctor.kinds import FindingId, finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.wire.doctor_report import DoctorFinding

ENTRY_POINTS = "gapless.doctor_checks"


class Check(Protocol):
    """What an entry point leads to."""

    def __call__(self, settings: Mapping[str, Any]) -> Sequence[DoctorFinding]:
        """Check this machine."""


def link_findings(settings: Mapping[str, Any] | None) -> list[DoctorFinding]:
    """What installed packages find out about this machine's link; ``None`` when no link is to be checked."""
    if settings is None:
        return []
    announced = metadata.entry_points(group=ENTRY_POINTS)
    if not announced:
        message = "The link was not checked: no installed package can check it."
        action = "Run the doctor where gapless-sender is installed, as in the sender's image."
        return [finding(FindingId.NOT_CHECKED, "local", message, where=str(settings["targetIP"]), action=action)]
    found: list[DoctorFinding] = []
    for entry in announced:
        check: Check = entry.load()
        found += check(settings)
    return found
