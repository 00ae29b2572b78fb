"""Owns which settings say how a link is opened; must not know what goes over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_sender.link.udp_link import UdpLink

if TYPE_CHECKING:
    from gapless_sender.pace.pacing import Clock


def open_link(values: dict[str, Any], clock: Clock) -> UdpLink:
    """Open the link that the settings describe; `clock` can end its waits. Raises ConfigurationError."""
    return UdpLink.open(
        values["targetIP"],
        values["targetPort"],
        nic=values["nic"] or "",
        source_address=values["sourceAddress"] or "",
        ttl=values["ttl"],
        dscp=values["dscp"],
        order="strict" if values["order"] == "strict" else "free",
        clock=clock,
    )
