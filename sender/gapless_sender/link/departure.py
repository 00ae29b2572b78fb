"""The rule whether datagrams leave this machine: interface, route, and neighbour entry of the next hop.

Must not know what is sent. A socket accepts datagrams for a next hop whose hardware address is unknown, and for an
interface without a carrier; the kernel drops them later. On a one-way link no reply to ARP or NDP ever comes back, so
only an entry that was added by hand lets them leave; on an ordinary network the first datagram makes the kernel ask.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError, LinkError
from gapless_sender.base.lazy_log import log
from gapless_sender.base.network import Nic, Target, nic_by_index
from gapless_sender.link.link_changes import LinkChanges, Watched
from gapless_sender.link.link_socket import connected_socket

if TYPE_CHECKING:
    import socket

    from gapless_sender.link.netlink import Neighbour, Route
    from gapless_sender.pace.pacing import Clock

RESOLUTION_SECONDS = 4.0
"""Linux asks three times, once per second, and then gives up."""
_POLL_SECONDS = 0.1
_DISCARD_PORT = 9


class NextHop(NamedTuple):
    """Where the datagrams of a link go next."""

    interface: Nic
    address: str
    needs_neighbour: bool
    """Whether they are unicast to a hardware address, which must be known."""


def next_hop(address: str, route: Route, interface: Nic) -> NextHop:
    """Return the next hop of `route` to `address`."""
    return NextHop(
        interface,
        route.gateway or address.partition("%")[0],
        needs_neighbour=interface.resolves_neighbours and route.kind == "unicast",
    )


def neighbour_advice(hop: NextHop, neighbour: Neighbour | None) -> str:
    """Return the state of a neighbour entry, and the command that adds it."""
    state = f"is {neighbour.state}, not permanent" if neighbour is not None else "is missing"
    known = neighbour.hardware_address if neighbour is not None else None
    return (
        f"The neighbour entry of {hop.address} on {hop.interface.name} {state}, and no reply comes back through a "
        f"diode; add it on this machine (ip neigh replace {hop.address} dev {hop.interface.name} lladdr "
        f"{known or 'HARDWARE-ADDRESS'} nud permanent)"
    )


def carrier_problem(interface: Nic) -> str:
    """Return the sentence about an interface without a carrier."""
    return f"The network interface {interface.name} has no carrier; check cable, transceiver and the diode."


class Departure:
    """Watches whether the datagrams of one socket leave this machine."""

    def __init__(self, target: Target, nic: Nic | None, source_address: str, clock: Clock) -> None:
        """`source_address` is that of the connected socket."""
        self._target = target
        self._nic = nic
        self._source_address = source_address
        self._clock = clock
        self._changes = LinkChanges.open()
        self._hop: NextHop | None = None
        self._ends_here = False
        self._failures_before = 0

    @classmethod
    def of(cls, opened: socket.socket, target: Target, nic: Nic | None, clock: Clock) -> Departure | None:
        """Watch the connected socket `opened`; ``None`` if its datagrams stay on this machine."""
        source, _, *scope = opened.getsockname()
        address = target.address[0].partition("%")[0]
        if source == address or ipaddress.ip_address(address).is_loopback:
            return None
        if scope and scope[-1]:
            source = f"{source}%{scope[-1]}"
        try:
            return cls(target, nic, source, clock)
        except OSError as error:
            log("warning", "Could not verify that datagrams leave this machine", reason=error.strerror or str(error))
            return None

    def begin(self) -> None:
        """Check before the first datagram. Raises LinkError."""
        self._changes.since_last(Watched(0, None))
        self._check(carrier_seconds=0.0)
        if self._hop is not None:
            self._failures_before = self._failures()

    def confirm(self, *, undelivered: bool, seconds: float) -> bool:
        """Return whether all datagrams since the last call have left; ``False`` if the link was interrupted meanwhile.

        Args:
            undelivered: whether an ICMP error has reported a datagram that did not.
            seconds: how long to wait for an interface without a carrier.

        Raises:
            LinkError: datagrams do not leave.
        """
        if self._ends_here:
            return True
        hop = self._hop
        changed, interrupted = self._changes.since_last(_watched(hop)) if hop is not None else (True, False)
        if not changed and not undelivered:
            return True
        lost = self._check(carrier_seconds=seconds)
        return not (interrupted or lost or hop is None)

    def failures(self) -> int:
        """Return how many datagrams, of any program, the interface has dropped or failed to send since `begin`."""
        return max(0, self._failures() - self._failures_before) if self._hop is not None else 0

    @property
    def interface_name(self) -> str:
        """The name of the interface."""
        return self._hop.interface.name if self._hop is not None else ""

    def _failures(self) -> int:
        from gapless_sender.link.netlink import transmit_failures  # noqa: PLC0415 -- slow to load

        return transmit_failures(self._hop.interface.number) if self._hop is not None else 0

    def _check(self, *, carrier_seconds: float) -> bool:
        """Wait until datagrams leave, and return whether they did not at first. Raises LinkError."""
        deadline = self._clock.now() + carrier_seconds
        waited = False
        while not self._can_leave(is_last=self._clock.now() >= deadline):
            waited = True
            self._clock.sleep(_POLL_SECONDS)
        return waited

    def _can_leave(self, *, is_last: bool) -> bool:
        from gapless_sender.link.netlink import has_carrier, route_to  # noqa: PLC0415 -- slow to load

        scope = self._target.address[3] if len(self._target.address) == 4 else 0
        number = self._nic.number if self._nic is not None else scope or None
        route = route_to(self._target, number, self._source_address)
        interface = nic_by_index(route.interface_number) if route is not None else None
        if route is None or interface is None or not interface.is_up:
            # The kernel refuses datagrams itself; what it has accepted before may be lost.
            if is_last and self._hop is not None:
                where = f" through {self._nic.name}" if self._nic is not None else ""
                raise LinkError(
                    f"There is no route to {self._target}{where} any more, or its interface is down; check the "
                    f"interface and the routes of this machine, then run again."
                )
            return self._hop is None
        if route.kind in {"local", "blackhole", "unreachable"}:
            self._ends_here = route.kind == "local"
            return True
        hop = next_hop(self._target.address[0], route, interface)
        if self._hop is not None and hop.interface.number != self._hop.interface.number:
            raise LinkError(
                f"The route to {self._target} now leads through {hop.interface.name} and no longer through "
                f"{self._hop.interface.name}; correct the routes of this machine, or set nic, then run again."
            )
        if not has_carrier(interface.number):
            if is_last:
                raise LinkError(carrier_problem(interface))
            return False
        if hop.needs_neighbour:
            self._resolve(hop)
        self._hop = hop
        return True

    def _resolve(self, hop: NextHop) -> None:
        """Wait for a usable neighbour entry. Raises LinkError."""
        from gapless_sender.link.netlink import neighbour_of  # noqa: PLC0415 -- slow to load

        found = neighbour_of(hop.address, hop.interface.number)
        if found is not None and found.is_usable:
            return
        self._ask()
        found = None  # It may have failed before, for example while the receiver was off.
        deadline = self._clock.now() + RESOLUTION_SECONDS
        while found is None or not found.is_usable:
            if (found is not None and found.state == "FAILED") or self._clock.now() > deadline:
                raise LinkError(
                    f"Nothing leaves this machine for {self._target}. {neighbour_advice(hop, found)}, then run again."
                )
            self._clock.sleep(_POLL_SECONDS)
            found = neighbour_of(hop.address, hop.interface.number)

    def _ask(self) -> None:
        """Make the kernel ask for the hardware address: by an empty datagram that goes no further than the next hop."""
        target = self._target._replace(address=_with_port(self._target, _DISCARD_PORT))
        try:
            asking = connected_socket(
                target, self._nic, source_address=self._source_address, ttl=1, dscp=None, ip_fragments=False
            )
        except ConfigurationError as error:
            raise LinkError(str(error)) from None
        with asking:
            try:
                asking.send(b"")
            except OSError as error:
                log("debug", "Could not start the resolution of the neighbour", reason=error.strerror)

    def close(self) -> None:
        """Stop watching."""
        self._changes.close()


def _with_port(target: Target, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    address = target.address
    return (address[0], port) if len(address) == 2 else (address[0], port, address[2], address[3])


def _watched(hop: NextHop) -> Watched:
    address = ipaddress.ip_address(hop.address.partition("%")[0]).packed if hop.needs_neighbour else None
    return Watched(hop.interface.number, address)
