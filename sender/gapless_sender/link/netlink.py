"""Owns netlink queries: the carrier of an interface, the route to an address, and its neighbour entry.

Must not know what any of it means for a link. Needs no privileges, changes nothing, and sees the network namespace of
this process only; /sys may show another's.
"""

from __future__ import annotations

import contextlib
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

if TYPE_CHECKING:
    from gapless_sender.base.network import Target

_ROUTE_TYPES = {
    1: "unicast",
    2: "local",
    3: "broadcast",
    4: "anycast",
    5: "multicast",
    6: "blackhole",
    7: "unreachable",
}
_NEIGHBOUR_STATES = {
    0x01: "INCOMPLETE",
    0x02: "REACHABLE",
    0x04: "STALE",
    0x08: "DELAY",
    0x10: "PROBE",
    0x20: "FAILED",
    0x40: "NOARP",
    0x80: "PERMANENT",
}


@dataclass(frozen=True, slots=True)
class Route:
    """The route to an address."""

    kind: str
    """unicast, local, broadcast, multicast …"""
    interface_number: int
    gateway: str | None
    """``None`` when the address is on the interface's own network."""
    source: str | None
    """The source address of datagrams."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The neighbour entry (ARP, NDP) of the next hop."""

    state: str
    """PERMANENT, REACHABLE, STALE, FAILED …"""
    hardware_address: str | None


def has_carrier(interface_number: int) -> bool:
    """Return whether the interface has a carrier; one that is down or missing has none."""
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.link("get", index=interface_number):
            return bool(found.get("carrier"))
    return False


def route_to(target: Target, interface_number: int | None) -> Route | None:
    """Return the route of datagrams to `target`; ``None`` when there is none.

    With an interface it is the route of a socket that is bound to it.
    """
    family, address = int(target.family), target.address[0].partition("%")[0]
    interface: dict[str, Any] = {} if interface_number is None else {"oif": interface_number}
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.route("get", family=family, dst=address, **interface):
            kind = _ROUTE_TYPES.get(found["type"], str(found["type"]))
            return Route(kind, found.get("oif"), found.get("gateway"), found.get("prefsrc"))
    return None


def neighbour_of(address: str, interface_number: int) -> Neighbour | None:
    """Return the neighbour entry of `address`; ``None`` when there is none."""
    neighbour = ipaddress.ip_address(address.partition("%")[0])
    family = 2 if neighbour.version == 4 else 10
    with IPRoute() as kernel:
        for entry in kernel.neigh("dump", family=family):
            destination = entry.get("dst")
            if entry["ifindex"] != interface_number or not destination:
                continue
            if ipaddress.ip_address(destination) == neighbour:
                return Neighbour(_NEIGHBOUR_STATES.get(entry["state"], "NONE"), entry.get("lladdr"))
    return None
