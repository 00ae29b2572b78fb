"""Owns what only netlink tells: the carrier of an interface, the way to an address and its neighbour.

Must not know what any of it means for a link. Needs no privileges, changes nothing, and sees the network of this
process only; /sys may show another's.
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
    """The way to an address."""

    kind: str
    """unicast, local, broadcast, multicast …"""
    interface_number: int
    gateway: str | None
    """``None`` when the address is on the interface's own network."""
    source: str | None
    """The address that datagrams would come from."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What is known about the next station."""

    state: str
    """PERMANENT, REACHABLE, STALE, FAILED …"""
    hardware_address: str | None


def has_carrier(interface_number: int) -> bool:
    """Whether something is plugged in and answers; an interface that is down or away has none."""
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.link("get", index=interface_number):
            return bool(found.get("carrier"))
    return False


def route_to(target: Target, interface_number: int | None) -> Route | None:
    """Ask how datagrams to `target` would leave; ``None`` when there is no way.

    With an interface it is the way of a socket that is bound to it.
    """
    family, address = int(target.family), target.address[0].partition("%")[0]
    chosen: dict[str, Any] = {} if interface_number is None else {"oif": interface_number}
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.route("get", family=family, dst=address, **chosen):
            kind = _ROUTE_TYPES.get(found["type"], str(found["type"]))
            return Route(kind, found.get("oif"), found.get("gateway"), found.get("prefsrc"))
    return None


def neighbour_of(address: str, interface_number: int) -> Neighbour | None:
    """Look for the neighbour entry of `address`; ``None`` when there is none."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    family = 2 if wanted.version == 4 else 10
    with IPRoute() as kernel:
        for found in kernel.neigh("dump", family=family):
            given = found.get("dst")
            if found["ifindex"] == interface_number and given and ipaddress.ip_address(given) == wanted:
                state = _NEIGHBOUR_STATES.get(found["state"], "NONE")
                return Neighbour(state, found.get("lladdr"))
    return None
