"""Owns whether a machine is fit to send over its link, from what the kernel says; sends nothing.

Must not know how the kernel is asked. What is found and what is wrong are kept apart: the first trouble becomes the
sentence, everything that could be found out is told in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import GaplessError
from gapless_api.wire.preflight import PreflightLine, RouteFound
from gapless_sender.base.network import Nic, nic_named, nic_numbered, payload_size_for, resolve_target
from gapless_sender.link.netlink import Neighbour, Route, has_carrier, neighbour_of, route_to
from gapless_sender.link.udp_link import UdpLink

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Findings:
    """What a look at the link has found."""

    nic: str
    target: str
    port: int
    payload_size: int = 0
    """Bytes that shall fit into a datagram, 0 for what does."""
    requires_neighbour: bool = False
    address: str | None = None
    interface: Nic | None = None
    has_carrier: bool = False
    """Whether something is plugged into the interface and answers."""
    largest_payload: int | None = None
    route: Route | None = None
    neighbour: Neighbour | None = None
    message: str = ""
    """What is wrong, in one sentence; empty when nothing is."""

    @property
    def needs_neighbour(self) -> bool:
        """Whether datagrams go to one station whose hardware address must be known."""
        on_wire = self.interface is not None and self.interface.asks_neighbours
        return on_wire and self.route is not None and self.route.kind == "unicast"

    def as_line(self) -> PreflightLine:
        """The findings as the command prints them."""
        interface, route, neighbour = self.interface, self.route, self.neighbour
        return PreflightLine(
            nic=interface.name if interface is not None else self.nic,
            exists=interface is not None,
            up=interface is not None and interface.is_up,
            carrier=self.has_carrier,
            mtu=interface.mtu if interface is not None else None,
            largest_payload=self.largest_payload,
            target=self.target,
            port=self.port,
            address=self.address,
            route=None if route is None else RouteFound(type=route.kind, gateway=route.gateway, source=route.source),
            needs_neighbour=self.needs_neighbour,
            neighbour=neighbour.state if neighbour is not None else None,
            hardware_address=neighbour.hardware_address if neighbour is not None else None,
            message=self.message or None,
        )


def look(  # noqa: PLR0913 -- what the command can be told
    nic: str,
    host: str,
    port: int,
    *,
    payload_size: int = 0,
    source_address: str = "",
    require_neighbour: bool = False,
) -> Findings:
    """Look at the link from `nic` (empty for the one that the routing table gives) to `host`."""
    found = Findings(nic, host, port, payload_size, require_neighbour)
    try:
        _look_at(found, nic_named(nic) if nic else None)
    except GaplessError as error:
        found.message = str(error)
    try:
        target = resolve_target(host, port, nic=found.interface, source_address=source_address)
        found.address = str(target.address[0])
        found.route = route_to(target, found.interface.number if found.interface is not None else None)
        if not nic and found.route is not None:
            _look_at(found, nic_numbered(found.route.interface_number))
        if found.interface is not None and found.route is not None:
            found.neighbour = neighbour_of(found.route.gateway or found.address, found.interface.number)
        if found.interface is not None:
            found.largest_payload = payload_size_for(
                found.interface.mtu, target.header_bytes, where=found.interface.name
            )
    except GaplessError as error:
        found.message = found.message or str(error)
    found.message = trouble_of(found) or _refusal(found, source_address)
    return found


def _look_at(found: Findings, interface: Nic | None) -> None:
    found.interface = interface
    found.has_carrier = interface is not None and interface.is_up and has_carrier(interface.number)


def trouble_of(found: Findings) -> str:
    """The first thing that keeps datagrams from arriving; empty for nothing."""
    return next(_troubles(found), "")


def _troubles(found: Findings) -> Iterator[str]:
    interface, route = found.interface, found.route
    if interface is not None:
        yield from _troubles_of_interface(found, interface)
    if found.message:
        yield found.message
    if route is None or route.kind in {"blackhole", "unreachable"}:
        through = f" through {found.nic}" if found.nic else ""
        yield (
            f"There is no route to {found.target}{through}; give the interface an address of the link's network, or "
            f"add a route."
        )
    elif interface is not None and found.requires_neighbour and found.needs_neighbour:
        yield from _troubles_of_neighbour(found, interface, route)


def _troubles_of_interface(found: Findings, interface: Nic) -> Iterator[str]:
    if not interface.is_up:
        yield f"The network interface {interface.name} is down; bring it up (ip link set {interface.name} up)."
    elif not found.has_carrier:
        yield f"The network interface {interface.name} has no carrier; check cable, transceiver and the diode."
    elif found.largest_payload is not None and found.payload_size > found.largest_payload:
        yield (
            f"A payload of {found.payload_size} bytes does not fit the MTU {interface.mtu} of {interface.name}, which "
            f"carries {found.largest_payload}; lower payloadSize, or raise the MTU."
        )


def _troubles_of_neighbour(found: Findings, interface: Nic, route: Route) -> Iterator[str]:
    station = route.gateway or found.address
    if found.neighbour is not None and found.neighbour.state == "PERMANENT":
        return
    has = f"is {found.neighbour.state}, not permanent" if found.neighbour is not None else "is missing"
    yield (
        f"The neighbour entry of {station} on {interface.name} {has}, and no reply comes back through a diode; add it "
        f"on this machine (ip neigh replace {station} lladdr HARDWARE-ADDRESS dev {interface.name} nud permanent)."
    )


def _refusal(found: Findings, source_address: str) -> str:
    """What the kernel has against the very socket that a resend would open; empty for nothing."""
    try:
        with UdpLink.open(found.target, found.port, nic=found.nic, source_address=source_address) as link:
            found.largest_payload = link.mtu_payload_size()
    except GaplessError as error:
        return str(error)
    return ""
