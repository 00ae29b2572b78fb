"""The UDP socket of a link: its options, interface, source address and target.

Must not know what is sent over it. The constants are Linux's; Python has no names for them.
"""

from __future__ import annotations

import socket
import struct

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.network import Nic, Target, source_socket_address

SEND_BUFFER_BYTES = 4 * 1024 * 1024
UDP_SEGMENT = 103
_SO_SNDBUFFORCE = 32
_IP_MTU, _IPV6_MTU = 14, 24
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER = 10, 23
_PMTUDISC_INTERFACE, _PMTUDISC_OMIT = 4, 5


def connected_socket(  # noqa: PLR0913 -- the settings of `UdpLink.open`
    target: Target, nic: Nic | None, *, source_address: str, ttl: int | None, dscp: int | None, ip_fragments: bool
) -> socket.socket:
    """Open a socket that sends to `target`. Raises ConfigurationError when there is no route."""
    opened = socket.socket(target.family, socket.SOCK_DGRAM)
    try:
        _configure(opened, target, nic, ttl=ttl, dscp=dscp, ip_fragments=ip_fragments)
        _bind_and_connect(opened, target, nic, source_address)
    except BaseException:
        opened.close()
        raise
    return opened


def route_mtu(connected: socket.socket) -> int:
    """Return the MTU of the route of a connected socket."""
    if connected.family == socket.AF_INET6:
        return connected.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)
    return connected.getsockopt(socket.IPPROTO_IP, _IP_MTU)


def supports_gso(opened: socket.socket) -> bool:
    """Return whether the kernel has UDP GSO (4.18); an older one would ignore it and send one huge datagram."""
    try:
        opened.getsockopt(socket.IPPROTO_UDP, UDP_SEGMENT)
    except OSError:
        return False
    return True


def _configure(  # noqa: PLR0913 -- the socket options of `UdpLink.open`
    opened: socket.socket, target: Target, nic: Nic | None, *, ttl: int | None, dscp: int | None, ip_fragments: bool
) -> None:
    try:
        opened.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 1, 0))
    discovery = _PMTUDISC_OMIT if ip_fragments else _PMTUDISC_INTERFACE
    # Without RECVERR the kernel silently drops datagrams when the queue of the NIC is full.
    if target.family == socket.AF_INET6:
        level = socket.IPPROTO_IPV6
        opened.setsockopt(level, _IPV6_RECVERR, 1)
        opened.setsockopt(level, _IPV6_MTU_DISCOVER, discovery)
        if ttl is not None:
            opened.setsockopt(level, socket.IPV6_UNICAST_HOPS, ttl)
            opened.setsockopt(level, socket.IPV6_MULTICAST_HOPS, ttl)
        if dscp is not None:
            opened.setsockopt(level, socket.IPV6_TCLASS, dscp << 2)
        if target.is_multicast and nic is not None:
            opened.setsockopt(level, socket.IPV6_MULTICAST_IF, nic.number)
    else:
        level = socket.IPPROTO_IP
        opened.setsockopt(level, _IP_RECVERR, 1)
        opened.setsockopt(level, _IP_MTU_DISCOVER, discovery)
        if ttl is not None:
            opened.setsockopt(level, socket.IP_TTL, ttl)
            opened.setsockopt(level, socket.IP_MULTICAST_TTL, ttl)
        if dscp is not None:
            opened.setsockopt(level, socket.IP_TOS, dscp << 2)
        if target.is_multicast and nic is not None:
            request = struct.pack("=4s4si", bytes(4), bytes(4), nic.number)
            opened.setsockopt(level, socket.IP_MULTICAST_IF, request)


def _bind_and_connect(opened: socket.socket, target: Target, nic: Nic | None, source_address: str) -> None:
    if nic is not None:
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.name.encode() + b"\0")
        except OSError as error:
            raise ConfigurationError(
                f"The socket cannot be bound to the interface {nic.name} ({error.strerror}). Kernels before 5.7 "
                f"require the capability CAP_NET_RAW for that: remove nic, and set sourceAddress instead."
            ) from None
    try:
        if source_address:
            opened.bind(source_socket_address(source_address, nic))
        try:
            opened.connect(target.address)
        except PermissionError:  # the target is a broadcast address of a local network
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            opened.connect(target.address)
    except OSError as error:
        through = f" through {nic.name}" if nic else ""
        source = f" from {source_address}" if source_address else ""
        raise ConfigurationError(
            f"There is no route to {target}{source}{through} ({error.strerror}); correct targetIP, nic, "
            f"sourceAddress or the routes of this machine."
        ) from None
