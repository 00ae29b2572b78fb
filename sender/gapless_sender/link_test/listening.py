"""The socket of ``gapless link receive``: datagrams, and what the kernel reports about each; knows no probes."""

from __future__ import annotations

import ipaddress
import select
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.network import Nic, nic_named
from gapless_sender.link_test.counting import Arrival

if TYPE_CHECKING:
    from gapless_sender.pace.pacing import Clock

BUFFER_BYTES = 64 * 1024 * 1024
MAX_DATAGRAMS_PER_READ = 512
"""Before other work is done."""
_LARGEST = 65_536
_SO_RCVBUFFORCE, _SO_RXQ_OVFL, _SO_MEMINFO = 33, 40, 55
_MEMINFO_DROPS = 8
_IP_RECVTTL = 12
_IP_PKTINFO = 8
_IN_PKTINFO_BYTES, _IN6_PKTINFO_BYTES = 12, 20
_CONTROL_BYTES = 256
_PACKET_INFO = {(socket.IPPROTO_IP, _IP_PKTINFO), (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)}
_COUNT = 0xFFFFFFFF


class Listener:
    """A bound UDP socket; a context manager."""

    def __init__(self, opened: socket.socket, clock: Clock) -> None:
        self._socket = opened
        self._clock = clock
        self._buffer = bytearray(_LARGEST)
        self._view = memoryview(self._buffer)
        self._dropped = 0
        self.buffer_bytes = opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        """The size that the kernel granted; it reports twice the requested size."""

    @classmethod
    def open(cls, address: str, port: int, *, nic: str = "", clock: Clock) -> Self:
        """Listen on `address`, which may be a multicast group, at `port`.

        Args:
            address: own address, 0.0.0.0 or :: for all, or a multicast group to join.
            port: UDP port.
            nic: interface to listen on; empty for all, and for the kernel's choice for a group.
            clock: for the arrival times.

        Raises:
            ConfigurationError: the interface or address does not exist, or the port is in use.
        """
        interface = nic_named(nic) if nic else None
        try:
            found = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            raise ConfigurationError(
                f"{address!r} is not an IP address; give one of this machine, a multicast group, or 0.0.0.0 or :: for "
                f"all."
            ) from None
        family, _, _, _, endpoint = found[0]
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            _set_options(opened, family)
            if interface is not None:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.name.encode() + b"\0")
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
                zone = int(endpoint[-1]) or (interface.number if interface is not None else 0)
                endpoint = (str(endpoint[0]), port, 0, zone)
            opened.bind(endpoint)
            _join(opened, str(endpoint[0]).partition("%")[0], endpoint, interface)
        except OSError as error:
            opened.close()
            on = f" on {interface.name}" if interface is not None else ""
            raise ConfigurationError(
                f"Cannot listen on {address} port {port}{on} ({error.strerror}); correct --address, --port or --nic, "
                f"or stop the program that uses the port."
            ) from None
        except BaseException:
            opened.close()
            raise
        opened.setblocking(False)
        return cls(opened, clock)

    @property
    def port(self) -> int:
        """The port."""
        return int(self._socket.getsockname()[1])

    def arrived(self, timeout_seconds: float) -> Iterator[tuple[memoryview, Arrival]]:
        """Yield what has arrived, after waiting up to `timeout_seconds`; a datagram is valid until the next one."""
        if not select.select([self._socket], [], [], timeout_seconds)[0]:
            return
        buffers, view, now, receive = [self._buffer], self._view, self._clock.now, self._socket.recvmsg_into
        for _ in range(MAX_DATAGRAMS_PER_READ):
            try:
                length, control, _, _ = receive(buffers, _CONTROL_BYTES)
            except BlockingIOError:
                return
            dropped, code_point, time_to_live, packet_info = 0, None, None, b""
            for level, kind, content in control:
                if level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                    dropped = self._newly_dropped(struct.unpack("=I", content)[0])
                elif (level, kind) in _PACKET_INFO:
                    packet_info = content
                elif kind in {socket.IP_TOS, socket.IPV6_TCLASS}:
                    code_point = int.from_bytes(content, sys.byteorder) >> 2
                else:
                    time_to_live = int.from_bytes(content, sys.byteorder)
            yield view[:length], Arrival(now(), dropped, code_point, time_to_live, packet_info)

    def dropped_since(self) -> int:
        """Return how many datagrams the kernel dropped after the last one that arrived, because the buffer was full."""
        words = struct.unpack("9I", self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
        return self._newly_dropped(words[_MEMINFO_DROPS])

    def _newly_dropped(self, dropped: int) -> int:
        """Return the increase since the last call; the kernel's counter has 32 bits."""
        newly = (dropped - self._dropped) & _COUNT
        if newly > _COUNT >> 1:  # a datagram that was already queued at the last call
            return 0
        self._dropped = dropped
        return newly

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _set_options(opened: socket.socket, family: int) -> None:
    try:
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)  # of IPv4 datagrams at an IPv6 socket, too
    opened.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
    opened.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)


def _join(opened: socket.socket, host: str, endpoint: tuple[object, ...], nic: Nic | None) -> None:
    """Join the multicast group, if `host` is one. Raises OSError."""
    group = ipaddress.ip_address(host)
    if not group.is_multicast:
        return
    if group.version == 6:
        request = group.packed + struct.pack("=i", endpoint[3])
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    else:
        request = group.packed + struct.pack("=4si", bytes(4), nic.number if nic is not None else 0)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)


def target_of(packet_info: bytes) -> str | None:
    """Return the address that a datagram was sent to, from what the kernel reported; ``None`` if it did not."""
    if len(packet_info) == _IN_PKTINFO_BYTES:  # interface, local address, address in the header
        return str(ipaddress.IPv4Address(packet_info[8:12]))
    if len(packet_info) == _IN6_PKTINFO_BYTES:  # address, interface
        address = ipaddress.IPv6Address(packet_info[:16])
        return str(address.ipv4_mapped or address)
    return None


def wrong_checksums() -> int:
    """Return how many datagrams this machine has dropped since boot because of a wrong UDP checksum."""
    total = 0
    try:
        names, values = (
            line.split()[1:] for line in Path("/proc/net/snmp").read_text("ascii").splitlines() if line[:5] == "Udp: "
        )
        total += int(dict(zip(names, values, strict=True)).get("InCsumErrors", 0))
        six = dict(line.split() for line in Path("/proc/net/snmp6").read_text("ascii").splitlines())
        total += int(six.get("Udp6InCsumErrors", 0))
    except (OSError, ValueError):  # a kernel without one of the two
        return total
    return total
