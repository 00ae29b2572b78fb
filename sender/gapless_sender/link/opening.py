"""Opening the link that the settings describe; must not know how it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_sender.link.udp_link import UdpLink

if TYPE_CHECKING:
    from gapless_sender.pace.pacing import Clock
    from gapless_sender.settings.link import LinkSettings


def open_link(settings: LinkSettings, clock: Clock, *, order: str) -> UdpLink:
    """Open the link that the settings describe; `clock` can interrupt its waits. Raises ConfigurationError."""
    link = UdpLink.open(
        settings.target_ip,
        settings.target_port,
        nic=settings.nic or "",
        source_address=settings.source_address or "",
        ttl=settings.ttl,
        dscp=settings.dscp,
        order="strict" if order == "strict" else "free",
        clock=clock,
    )
    link.is_strict = settings.strict_link
    return link
