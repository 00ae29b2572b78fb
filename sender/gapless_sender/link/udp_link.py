"""Owns the UDP socket: datagrams in, system calls out, and what to do when the kernel refuses one.

Must not know what a datagram holds, nor when it may go out.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import ConfigurationError, LinkError
from gapless_sender.base.network import Nic, Target, nic_named, payload_size_for, resolve_target
from gapless_sender.link.gso_batches import GsoBatch, Order, arrange
from gapless_sender.link.link_socket import UDP_SEGMENT, connected_socket, knows_gso, route_mtu
from gapless_sender.link.sendmmsg import LEAST_BATCHES, MOST_BATCHES, SendmmsgSender
from gapless_sender.pace.pacing import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from gapless_sender.settings.link import LinkSettings

DEADLINE_SECONDS = 30.0
"""So long a link may be full or away before the work ends."""
FIRST_PAUSE_SECONDS = 0.0005
LONGEST_PAUSE_FULL_SECONDS = 0.05
LONGEST_PAUSE_DOWN_SECONDS = 0.5
_ORIGINS_ICMP = frozenset({2, 3})
"""Where a queued error came from (SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6): another host, about an earlier datagram."""

_FULL = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM})
"""The queue is full: soon over."""
_DOWN = frozenset(
    {
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EHOSTDOWN,
        errno.EPERM,
        errno.EACCES,
        errno.ENODEV,
        errno.ENXIO,
        errno.EADDRNOTAVAIL,
    }
)
"""The link is away: over when somebody repairs it."""
_NO_GSO = frozenset({errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EMSGSIZE})


class UnsentError(LinkError):
    """The link took no more datagrams."""

    def __init__(self, message: str, unsent: tuple[bytes, ...]) -> None:
        super().__init__(message)
        self.unsent = unsent
        """The datagrams of the call that the kernel did not accept; all others of the call went out."""


@dataclass(slots=True)
class LinkStats:
    """What a link has done since it was opened."""

    datagrams: int = 0
    payload_bytes: int = 0
    calls: int = 0
    """System calls that sent something."""
    refused: int = 0
    """Times that a host answered "port unreachable"; a diode never answers."""
    retries: int = 0
    """Times that a full queue or a link that was away made us wait."""


class _Trouble(NamedTuple):
    began: float
    failures: int = 0
    """After which we have waited."""


class UdpLink:
    """A connected UDP socket that groups datagrams for UDP GSO; a context manager."""

    def __init__(  # noqa: PLR0913 -- what `open` found
        self, opened: socket.socket, target: Target, nic: Nic | None, *, order: Order, gso: bool, clock: Clock
    ) -> None:
        self._socket = opened
        self._target = target
        self._nic = nic
        self._order = order
        self._clock = clock
        self._gso = gso and knows_gso(opened)
        self._sendmmsg: SendmmsgSender | None = None
        self.deadline_seconds = DEADLINE_SECONDS
        self.stats = LinkStats()

    @classmethod
    def open(  # noqa: PLR0913 -- one keyword for each setting
        cls,
        target: str,
        port: int,
        *,
        nic: str = "",
        source_address: str = "",
        order: Order = "free",
        ttl: int | None = None,
        dscp: int | None = None,
        ip_fragments: bool = False,
        gso: bool = True,
        clock: Clock | None = None,
    ) -> UdpLink:
        """Open the link to `target`, which may be a unicast, broadcast or multicast address, or a name.

        Args:
            target: address or name.
            port: UDP port.
            nic: interface to send through whatever the routes say; empty for the routes.
            source_address: own address to send from; empty for the kernel's choice.
            order: "strict" keeps the order of datagrams at the price of more system calls.
            ttl: IP time to live (hop limit), for multicast too; ``None`` for the kernel's.
            dscp: differentiated services code point, 0 to 63.
            ip_fragments: let the kernel cut datagrams that are larger than the MTU; without it they are an error.
            gso: hand datagrams to the kernel in groups (UDP generic segmentation offload) where it can. A shaping queue
                on the interface (tbf) that is shorter than a group (64 KiB) drops a part of it without a word: keep the
                pace below its rate, or do without.
            clock: for tests and for waits that can be ended.

        Raises:
            ConfigurationError: the target cannot be resolved, or NIC, source address and target do not fit together.
        """
        interface = nic_named(nic) if nic else None
        resolved = resolve_target(target, port, nic=interface, source_address=source_address)
        opened = connected_socket(
            resolved, interface, source_address=source_address, ttl=ttl, dscp=dscp, ip_fragments=ip_fragments
        )
        return cls(opened, resolved, interface, order=order, gso=gso, clock=clock or SystemClock())

    @property
    def header_bytes(self) -> int:
        """Bytes of the IP and UDP headers that each datagram costs on the wire."""
        return self._target.header_bytes

    def mtu_payload_size(self) -> int:
        """The largest payload that fits the MTU of the route (and of the NIC, if one was given).

        Raises:
            ConfigurationError: the MTU is too small for any packet.
        """
        mtu = self._mtu()
        return payload_size_for(
            mtu, self.header_bytes, where=self._nic.name if self._nic else f"the way to {self._target}"
        )

    @property
    def keeps_order(self) -> bool:
        """Whether datagrams leave in the order in which they are given."""
        return self._order == "strict"

    def _mtu(self) -> int:
        mtu = route_mtu(self._socket)
        return min(mtu, nic_named(self._nic.name).mtu) if self._nic else mtu

    def arrange(self, datagrams: Sequence[bytes]) -> list[GsoBatch]:
        """Arrange `datagrams` for as few system calls as the order allows."""
        return arrange(datagrams, self._order)

    def send(self, datagrams: Sequence[bytes]) -> None:
        """Send all of `datagrams`; when this returns, the kernel has accepted each.

        Raises:
            UnsentError: (a LinkError) the link was full or away for `deadline_seconds`, or a datagram is too large.
        """
        self.send_batches(self.arrange(datagrams))

    def send_batches(self, batches: Sequence[GsoBatch]) -> None:
        """Send `batches` in order, many in one system call. Raises UnsentError like `send`."""
        done = 0
        while done < len(batches):
            if self._gso and len(batches) - done >= LEAST_BATCHES:
                together = batches[done : done + MOST_BATCHES]
                sent = self._send_together(together)
                done += sent
                if sent == len(together):
                    continue
            try:
                self.send_batch(batches[done])
            except UnsentError as error:
                error.unsent += tuple(datagram for later in batches[done + 1 :] for datagram in later.datagrams)
                raise
            done += 1

    def _send_together(self, batches: Sequence[GsoBatch]) -> int:
        """Send `batches` in one system call; return how many the kernel took. Why not more, the next one will tell."""
        if self._sendmmsg is None:
            self._sendmmsg = SendmmsgSender(self._socket.fileno())
        sent, payload_bytes = self._sendmmsg.send(batches)
        if sent:
            self._count(sum([len(batch.datagrams) for batch in batches[:sent]]), payload_bytes)
        if sent < len(batches) and self._is_about_earlier(OSError()):
            self.stats.refused += 1
        return sent

    def send_batch(self, batch: GsoBatch) -> None:
        """Send one batch of `batches`, or a part of it. Raises UnsentError like `send`."""
        datagrams = batch.datagrams
        if len(datagrams) > 1 and self._gso and self._send_segmented(batch):
            return
        for index in range(len(datagrams)):
            self._send_one(datagrams, index)

    def _send_segmented(self, batch: GsoBatch) -> bool:
        """Send `batch` in one call; ``False`` when the kernel or the NIC cannot."""
        payload = b"".join(batch.datagrams)
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", batch.size))]
        trouble = None
        while True:
            try:
                self._socket.sendmsg((payload,), control)
            except OSError as error:
                about_earlier = self._is_about_earlier(error)
                if error.errno in _NO_GSO and not about_earlier:
                    self._gso = error.errno == errno.EMSGSIZE  # the size is at fault then, as sending one by one shows
                    return False
                trouble = self._wait_or_raise(error, trouble, batch.datagrams, about_earlier=about_earlier)
            else:
                self._count(len(batch.datagrams), len(payload))
                return True

    def _send_one(self, datagrams: Sequence[bytes], index: int) -> None:
        datagram = datagrams[index]
        trouble = None
        while True:
            try:
                self._socket.send(datagram)
            except OSError as error:
                about_earlier = self._is_about_earlier(error)
                trouble = self._wait_or_raise(error, trouble, datagrams[index:], about_earlier=about_earlier)
            else:
                self._count(1, len(datagram))
                return

    def _count(self, datagrams: int, payload_bytes: int) -> None:
        stats = self.stats
        stats.datagrams += datagrams
        stats.payload_bytes += payload_bytes
        stats.calls += 1

    def _is_about_earlier(self, error: OSError) -> bool:
        """Whether `error` is a late answer to an earlier datagram; the one at hand was then not sent and not judged."""
        about_earlier = error.errno == errno.ECONNREFUSED
        with contextlib.suppress(BlockingIOError):
            while True:
                _, control, _, _ = self._socket.recvmsg(0, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
                about_earlier |= any(content[4] in _ORIGINS_ICMP for _, _, content in control if len(content) > 4)
        return about_earlier

    def _wait_or_raise(
        self, error: OSError, trouble: _Trouble | None, unsent: Sequence[bytes], *, about_earlier: bool
    ) -> _Trouble:
        """Return when it is time to try again after `error`, or give up."""
        now = self._clock.now()
        trouble = trouble or _Trouble(began=now)
        way = f"{self._target}{f' through {self._nic.name}' if self._nic else ''}"
        if error.errno == errno.EMSGSIZE and not about_earlier:
            mtu = self._mtu()
            raise UnsentError(
                f"A datagram of {len(unsent[0])} bytes does not fit the MTU {mtu} on the way to {way}; set payloadSize "
                f"to auto, or to {mtu - self.header_bytes} at most.",
                tuple(unsent),
            ) from None
        if not about_earlier and error.errno not in _FULL | _DOWN:
            raise UnsentError(
                f"The link to {way} refused a datagram ({error.strerror}); check the network of this machine.",
                tuple(unsent),
            ) from None
        if now - trouble.began > self.deadline_seconds:
            raise UnsentError(
                f"The link to {way} has taken no datagram for {self.deadline_seconds:.0f} seconds "
                f"({self._reason(error)}); "
                f"check the interface, the route and the firewall, then run again.",
                tuple(unsent),
            ) from None
        if about_earlier:
            self.stats.refused += 1
            return trouble
        self.stats.retries += 1
        longest = LONGEST_PAUSE_FULL_SECONDS if error.errno in _FULL else LONGEST_PAUSE_DOWN_SECONDS
        self._clock.sleep(backoff(trouble.failures, first=FIRST_PAUSE_SECONDS, longest=longest))
        return trouble._replace(failures=trouble.failures + 1)

    def _reason(self, error: OSError) -> str:
        """What the system says, or what is plainer."""
        with contextlib.suppress(ConfigurationError):  # the interface is gone, which the system says too
            if self._nic is not None and not nic_named(self._nic.name).is_up:
                return f"the interface {self._nic.name} is down"
        return error.strerror or str(error)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_link(settings: LinkSettings, clock: Clock, *, order: str) -> UdpLink:
    """Open the link that the settings describe; `clock` can end its waits. Raises ConfigurationError."""
    return UdpLink.open(
        settings.target_ip,
        settings.target_port,
        nic=settings.nic or "",
        source_address=settings.source_address or "",
        ttl=settings.ttl,
        dscp=settings.dscp,
        order="strict" if order == "strict" else "free",
        clock=clock,
    )
