"""Netlink queries: carrier and drops of an interface, the route to an address, and its neighbour entry.

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
_USABLE_STATES = frozenset({"REACHABLE", "STALE", "DELAY", "PROBE", "NOARP", "PERMANENT"})
"""Linux calls them NUD_VALID."""


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

    @property
    def is_usable(self) -> bool:
        """Whether the kernel sends to it at once; it queues, and later drops, what is for any other."""
        return self.state in _USABLE_STATES


def has_carrier(interface_number: int) -> bool:
    """Return whether the interface has a carrier; one that is down or missing has none."""
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.link("get", index=interface_number):
            return bool(found.get("carrier"))
    return False


def transmit_failures(interface_number: int) -> int:
    """Return how many datagrams of any program the interface has dropped or failed to send since it exists."""
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.link("get", index=interface_number):
            counters = found.get("stats64") or {}
            return int(counters.get("tx_dropped", 0)) + int(counters.get("tx_errors", 0))
    return 0


def route_to(target: Target, interface_number: int | None, source_address: str | None = None) -> Route | None:
    """Return the route of datagrams to `target`; ``None`` when there is none.

    With an interface it is the route of a socket that is bound to it, with a source address that of one with this
    address.
    """
    family, address = int(target.family), target.address[0].partition("%")[0]
    options: dict[str, Any] = {} if interface_number is None else {"oif": interface_number}
    if source_address is not None:
        options["src"] = source_address.partition("%")[0]
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for found in kernel.route("get", family=family, dst=address, **options):
            kind = _ROUTE_TYPES.get(found["type"], str(found["type"]))
            via = found.get("via") or {}  # a gateway of the other family
            return Route(kind, found.get("oif"), found.get("gateway") or via.get("addr"), found.get("prefsrc"))
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
