"""Facts about this machine's network: interfaces, MTU, the address of a target.

Must not know packets, and sends nothing.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError

UDP_HEADER_BYTES = 8
IP_HEADER_BYTES = {socket.AF_INET: 20, socket.AF_INET6: 40}
MIN_PAYLOAD_SIZE = 500
MAX_PAYLOAD_SIZE = 65459
"""The limits of the setting payloadSize, which are the peer's (65507 - 48)."""
_SIOCGIFFLAGS, _SIOCGIFMTU = 0x8913, 0x8921
_UP, _LOOPBACK, _POINT_TO_POINT, _NO_ARP = 0x1, 0x8, 0x10, 0x80
"""Flags of an interface (IFF_…)."""


class Nic(NamedTuple):
    """A network interface of this machine."""

    name: str
    number: int
    """Its interface index (the scope of link-local addresses)."""
    mtu: int
    is_up: bool
    resolves_neighbours: bool
    """Whether it resolves hardware addresses (ARP, NDP); loopback, tunnels and point-to-point links do not."""


class Target(NamedTuple):
    """Where datagrams go."""

    family: socket.AddressFamily
    address: tuple[str, int] | tuple[str, int, int, int]
    """What `socket.connect` takes."""
    is_multicast: bool

    @property
    def header_bytes(self) -> int:
        """Bytes of the IP and UDP headers before each payload."""
        return IP_HEADER_BYTES[self.family] + UDP_HEADER_BYTES

    def __str__(self) -> str:
        host, port = self.address[:2]
        return f"[{host}]:{port}" if self.family == socket.AF_INET6 else f"{host}:{port}"


def nic_named(name: str) -> Nic:
    """Look up the interface `name`.

    Raises:
        ConfigurationError: this machine has no such interface.
    """
    try:
        number = socket.if_nametoindex(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            mtu = _interface_number(any_socket, _SIOCGIFMTU, name, "=i")
            flags = _interface_number(any_socket, _SIOCGIFFLAGS, name, "=h")
    except (OSError, ValueError):  # a ValueError is a zero byte in the name
        others = ", ".join(sorted(other for _, other in socket.if_nameindex()))
        raise ConfigurationError(
            f"The network interface {name!r} does not exist on this machine; set nic to one of: {others}."
        ) from None
    resolves_neighbours = not flags & (_LOOPBACK | _POINT_TO_POINT | _NO_ARP)
    return Nic(name, number, mtu, bool(flags & _UP), resolves_neighbours=resolves_neighbours)


def nic_by_index(number: int) -> Nic | None:
    """Look up the interface with the index `number`; ``None`` when there is none."""
    try:
        return nic_named(socket.if_indextoname(number))
    except (OSError, ConfigurationError):
        return None


def _interface_number(any_socket: socket.socket, ioctl: int, name: str, form: str) -> int:
    """Query an interface in this process's network namespace; /sys may show another's."""
    reply = fcntl.ioctl(any_socket, ioctl, struct.pack("=16s24x", name.encode()))
    (number,) = struct.unpack_from(form, reply, 16)
    return int(number)


def resolve_target(host: str, port: int, *, nic: Nic | None = None, source_address: str = "") -> Target:
    """Resolve `host`, an IPv4 or IPv6 address or a name, in the family of `source_address` if that is given.

    An IPv6 address may be in brackets. A link-local one without a zone gets that of `nic`. An IPv4-mapped IPv6 address
    (``::ffff:10.0.0.2``) is the IPv4 address, because it is IPv4 on the wire.

    Raises:
        ConfigurationError: the name cannot be resolved.
    """
    family = socket.AF_UNSPEC
    if source_address:
        family = socket.AF_INET6 if ":" in source_address else socket.AF_INET
    unbracketed = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        found = socket.getaddrinfo(unbracketed, port, family, socket.SOCK_DGRAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else error
        kind = ""
        if source_address:
            kind = f" to an {'IPv6' if family == socket.AF_INET6 else 'IPv4'} address, like {source_address},"
        raise ConfigurationError(
            f"The target {host!r} cannot be resolved{kind} ({reason}); correct targetIP, or give an IP address."
        ) from None
    chosen, _, _, _, address = found[0]
    parsed = ipaddress.ip_address(str(address[0]).partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    if mapped is not None:
        return resolve_target(str(mapped), port, nic=nic, source_address=source_address)
    if len(address) == 4:
        name, number, flow, zone = address
        if parsed.is_link_local and not zone and nic is not None:
            zone = nic.number
        return Target(chosen, (str(name), int(number), int(flow), int(zone)), parsed.is_multicast)
    return Target(chosen, (str(address[0]), int(address[1])), parsed.is_multicast)


def source_socket_address(address: str, nic: Nic | None = None) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return the argument of `socket.bind` for an own IP address and any port.

    A link-local IPv6 address needs its interface: its zone (``fe80::1%eth0``) or else `nic`.

    Raises:
        ConfigurationError: it is not an IP address, or no interface has the name of its zone.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise ConfigurationError(
            f"The source address {address!r} is not an IP address; give one of this machine, or none."
        ) from None
    if parsed.version == 4:
        return address, 0
    host, _, zone = address.partition("%")
    scope = 0
    if zone:
        scope = int(zone) if zone.isdecimal() else nic_named(zone).number
    elif parsed.is_link_local and nic is not None:
        scope = nic.number
    return host, 0, 0, scope


def payload_size_for(mtu: int, header_bytes: int, *, where: str) -> int:
    """Return the largest payload that fits `mtu` unfragmented, at most 65459.

    Raises:
        ConfigurationError: it would be smaller than 500.
    """
    size = min(mtu - header_bytes, MAX_PAYLOAD_SIZE)
    if size < MIN_PAYLOAD_SIZE:
        raise ConfigurationError(
            f"The MTU {mtu} of {where} leaves {size} bytes for a payload, and the minimum is {MIN_PAYLOAD_SIZE}; "
            f"raise the MTU, or send over another interface."
        )
    return size
