"""The check whether a machine can send over its link, based on the kernel's state; sends nothing.

Must not know how the kernel is queried. The first problem becomes the message; all facts are reported in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless_api.base.errors import GaplessError
from gapless_api.wire.preflight import PreflightLine, RouteFound
from gapless_sender.base.network import Nic, nic_by_index, nic_named, payload_size_for, resolve_target
from gapless_sender.link.departure import NextHop, carrier_problem, neighbour_advice, next_hop
from gapless_sender.link.netlink import Neighbour, Route, has_carrier, neighbour_of, route_to
from gapless_sender.link.udp_link import UdpLink


@dataclass(slots=True)
class Findings:
    """The result of a check."""

    nic: str
    target: str
    port: int
    payload_size: int = 0
    """Bytes that must fit into a datagram, 0 for what fits."""
    requires_neighbour: bool = False
    address: str | None = None
    interface: Nic | None = None
    has_carrier: bool = False
    """Whether the interface has a link partner."""
    largest_payload: int | None = None
    route: Route | None = None
    neighbour: Neighbour | None = None
    message: str = ""
    """The first problem; empty when there is none."""

    @property
    def hop(self) -> NextHop | None:
        """The next hop; ``None`` if it is unknown."""
        if self.address is None or self.route is None or self.interface is None:
            return None
        return next_hop(self.address, self.route, self.interface)

    @property
    def needs_neighbour(self) -> bool:
        """Whether datagrams are unicast to a hardware address, which must be known."""
        return self.hop is not None and self.hop.needs_neighbour

    @property
    def is_permanent(self) -> bool:
        """Whether the neighbour entry stays although no reply comes back."""
        return self.neighbour is not None and self.neighbour.state == "PERMANENT"

    def as_line(self) -> PreflightLine:
        """Return the findings in the form that the command prints."""
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


def check_link(  # noqa: PLR0913 -- the options of the command
    nic: str,
    host: str,
    port: int,
    *,
    payload_size: int = 0,
    source_address: str = "",
    require_neighbour: bool = False,
) -> Findings:
    """Check the link from `nic` (empty for the routing table's choice) to `host`."""
    found = Findings(nic, host, port, payload_size, require_neighbour)
    try:
        _check_interface(found, nic_named(nic) if nic else None)
    except GaplessError as error:
        found.message = str(error)
    try:
        target = resolve_target(host, port, nic=found.interface, source_address=source_address)
        found.address = str(target.address[0])
        found.route = route_to(target, found.interface.number if found.interface is not None else None)
        if not nic and found.route is not None:
            _check_interface(found, nic_by_index(found.route.interface_number))
        if found.interface is not None and found.route is not None:
            hop = next_hop(found.address, found.route, found.interface)
            found.neighbour = neighbour_of(hop.address, found.interface.number)
        if found.interface is not None:
            found.largest_payload = payload_size_for(
                found.interface.mtu, target.header_bytes, where=found.interface.name
            )
    except GaplessError as error:
        found.message = found.message or str(error)
    found.message = first_problem(found) or _socket_problem(found, source_address)
    return found


def _check_interface(found: Findings, interface: Nic | None) -> None:
    found.interface = interface
    found.has_carrier = interface is not None and interface.is_up and has_carrier(interface.number)


def first_problem(found: Findings) -> str:
    """Return the first problem that prevents sending; empty for none."""
    return next(_problems(found), "")


def _problems(found: Findings) -> Iterator[str]:
    interface, route = found.interface, found.route
    if interface is not None:
        yield from _interface_problems(found, interface)
    if found.message:
        yield found.message
    if route is None or route.kind in {"blackhole", "unreachable"}:
        through = f" through {found.nic}" if found.nic else ""
        yield (
            f"There is no route to {found.target}{through}; give the interface an address of the link's network, or "
            f"add a route."
        )
    elif (hop := found.hop) is not None and hop.needs_neighbour and found.requires_neighbour and not found.is_permanent:
        yield f"{neighbour_advice(hop, found.neighbour)}."


def _interface_problems(found: Findings, interface: Nic) -> Iterator[str]:
    if not interface.is_up:
        yield f"The network interface {interface.name} is down; bring it up (ip link set {interface.name} up)."
    elif not found.has_carrier:
        yield carrier_problem(interface)
    elif found.largest_payload is not None and found.payload_size > found.largest_payload:
        yield (
            f"A payload of {found.payload_size} bytes does not fit the MTU {interface.mtu} of {interface.name}, which "
            f"allows {found.largest_payload}; lower payloadSize, or raise the MTU."
        )


def _socket_problem(found: Findings, source_address: str) -> str:
    """Return the error of opening the same socket as a resend; empty for none."""
    try:
        with UdpLink.open(found.target, found.port, nic=found.nic, source_address=source_address) as link:
            found.largest_payload = link.mtu_payload_size()
    except GaplessError as error:
        return str(error)
    return ""
