"""The preflight check of a link as a check of ``gapless doctor``, which finds it by an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_sender.link_test.preflight import check_link

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding


def link_findings(settings: Mapping[str, Any]) -> list[DoctorFinding]:
    """Check this machine's interface, route and neighbour entry; nothing is sent.

    Args:
        settings: of the link, by name.
    """
    found = check_link(
        settings["nic"],
        settings["targetIP"],
        settings["targetPort"],
        payload_size=settings["payloadSize"],
        source_address=settings["sourceAddress"],
        require_neighbour=settings["requireNeighbour"],
    )
    if not found.message:
        return []
    where = f"{found.interface.name if found.interface is not None else found.nic or 'no interface'} to {found.target}"
    return [finding(FindingId.LINK_FAULT, "local", found.message, where=where)]
