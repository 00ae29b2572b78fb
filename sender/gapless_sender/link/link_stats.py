"""The counts of a link and what they warn of; must not know how it sends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LinkStats:
    """The traffic of a link since it was opened."""

    datagrams: int = 0
    payload_bytes: int = 0
    calls: int = 0
    """System calls that sent something."""
    refused: int = 0
    """How often a host replied "port unreachable"; a diode never replies."""
    retries: int = 0
    """How often sending waited for a full queue or a link that is down."""


def refusal_text(times: int) -> str:
    """Return the sentence about replies of a host: a diode never replies, but a host in front of it may."""
    return (
        f"A host replied {times:,} times that no program listens at the target (connection refused), so sent "
        f"events may be lost; check targetIP, targetPort and the receiver."
    )


def link_warnings(*, accepted: int, refused: int, interface_drops: int, interface: str) -> list[str]:
    """Return the sentences about datagrams that may not have arrived although the kernel accepted them."""
    found = []
    if refused:
        found.append(refusal_text(refused))
    if interface_drops:
        found.append(
            f"The interface {interface} dropped {interface_drops:,} datagrams meanwhile (tx_dropped, tx_errors), of "
            f"this program or of others: of {accepted:,} accepted ones at least {max(0, accepted - interface_drops):,} "
            f"left the interface; check the interface, and lower the rate."
        )
    return found
