"""Sending over the UDP socket: the system calls for datagrams, and what to do when the kernel refuses one.

Must not know the content of a datagram, nor when it may be sent.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import ConfigurationError, LinkError
from gapless_sender.base.network import Nic, Target, nic_named, payload_size_for, resolve_target
from gapless_sender.link.departure import Departure
from gapless_sender.link.gso_batches import GsoBatch, Order, arrange
from gapless_sender.link.link_socket import UDP_SEGMENT, connected_socket, route_mtu, supports_gso
from gapless_sender.link.link_stats import LinkStats, link_warnings, refusal_text
from gapless_sender.link.send_errors import DOWN, FULL, NO_GSO, icmp_replies, wait_for_reply
from gapless_sender.link.sendmmsg import MAX_BATCHES, MIN_BATCHES, SendmmsgSender
from gapless_sender.pace.pacing import Clock, SystemClock

DEADLINE_SECONDS = 30.0
"""How long a link may be full or down before the work ends."""
FIRST_PAUSE_SECONDS = 0.0005
MAX_PAUSE_FULL_SECONDS = 0.05
MAX_PAUSE_DOWN_SECONDS = 0.5
MAX_INTERRUPTIONS = 3
"""A batch is sent again as often if the link was interrupted meanwhile."""
REPLY_SECONDS = 0.2
"""How long to wait for replies of a host before the first events count as sent, and after the last, if that matters."""


class UnsentError(LinkError):
    """The link accepts no more datagrams."""

    def __init__(self, message: str, unsent: tuple[bytes, ...]) -> None:
        super().__init__(message)
        self.unsent = unsent
        """The datagrams of the call that the kernel did not accept; all others were sent."""


class _Retry(NamedTuple):
    started: float
    waits: int = 0


class UdpLink:
    """A connected UDP socket that groups datagrams for UDP GSO; a context manager."""

    def __init__(  # noqa: PLR0913 -- the result of `open`
        self, opened: socket.socket, target: Target, nic: Nic | None, *, order: Order, gso: bool, clock: Clock
    ) -> None:
        self._socket = opened
        self._target = target
        self._nic = nic
        self._order = order
        self._clock = clock
        self._gso = gso and supports_gso(opened)
        self._sendmmsg: SendmmsgSender | None = None
        self._departure: Departure | None = None
        self._has_begun = False
        self._undelivered = False
        self._awaits_replies = True
        self.is_strict = False
        """Whether a reply "port unreachable" ends the work."""
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
            nic: interface to send through, regardless of routes; empty for the routing table's choice.
            source_address: own address to send from; empty for the kernel's choice.
            order: "strict" keeps the order of datagrams at the price of more system calls.
            ttl: IP time to live (hop limit), for multicast too; ``None`` for the kernel's.
            dscp: differentiated services code point, 0 to 63.
            ip_fragments: let the kernel fragment datagrams larger than the MTU; without it they are an error.
            gso: use UDP generic segmentation offload where the kernel supports it. A shaping queue on the interface
                (tbf) that is shorter than a group (64 KiB) silently drops a part of it: keep the pace below its rate,
                or disable GSO.
            clock: for tests and for waits that can be interrupted.

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
        """Bytes of the IP and UDP headers of each datagram."""
        return self._target.header_bytes

    def mtu_payload_size(self) -> int:
        """Return the largest payload that fits the MTU of the route (and of the NIC, if one was given).

        Raises:
            ConfigurationError: the MTU is too small for any packet.
        """
        mtu = self._mtu()
        return payload_size_for(
            mtu, self.header_bytes, where=self._nic.name if self._nic else f"the route to {self._target}"
        )

    @property
    def keeps_order(self) -> bool:
        """Whether datagrams are sent in the order in which they are given."""
        return self._order == "strict"

    def _mtu(self) -> int:
        mtu = route_mtu(self._socket)
        return min(mtu, nic_named(self._nic.name).mtu) if self._nic else mtu

    def arrange(self, datagrams: Sequence[bytes]) -> list[GsoBatch]:
        """Group `datagrams` into as few system calls as the order allows."""
        return arrange(datagrams, self._order)

    def send(self, datagrams: Sequence[bytes]) -> None:
        """Send all of `datagrams`; when this returns, the kernel has accepted each.

        Raises:
            UnsentError: (a LinkError) the link was full or down for `deadline_seconds`, or a datagram is too large.
            LinkError: see `begin`.
        """
        self.send_batches(self.arrange(datagrams))

    def begin(self) -> None:
        """Check before the first datagram that it leaves this machine; later calls do nothing. Raises LinkError."""
        if self._has_begun:
            return
        self._departure = Departure.of(self._socket, self._target, self._nic, self._clock)
        if self._departure is not None:
            self._departure.begin()
        self._has_begun = True

    def confirm(self, repeat: Callable[[], None]) -> None:
        """Return when all datagrams since the last call have left this machine; `repeat` sends them again.

        Raises:
            LinkError: they do not leave, or (if the link is strict) a host refuses them.
        """
        for _ in range(MAX_INTERRUPTIONS):
            if self.is_strict and self._awaits_replies:
                wait_for_reply(self._socket, REPLY_SECONDS)
                self._awaits_replies = False
            self._is_icmp_error(OSError())
            self._check_strictly()
            undelivered, self._undelivered = self._undelivered, False
            if self._departure is None or self._departure.confirm(
                undelivered=undelivered, seconds=self.deadline_seconds
            ):
                return
            repeat()
        raise LinkError(
            f"The link to {self._target} was interrupted {MAX_INTERRUPTIONS} times within a batch; check the cable and "
            f"the interface {self.interface_name}, then run again."
        )

    def settle_replies(self) -> None:
        """Wait a moment for replies to the last datagrams. Raises LinkError if the link is strict and there are any."""
        if self._departure is not None or self.is_strict:
            wait_for_reply(self._socket, REPLY_SECONDS)
        self._is_icmp_error(OSError())
        self._check_strictly()

    def _check_strictly(self) -> None:
        if self.is_strict and self.stats.refused:
            raise LinkError(refusal_text(self.stats.refused))

    def interface_drops(self) -> int:
        """Return how many datagrams, of any program, the interface has dropped since `begin`."""
        return self._departure.failures() if self._departure is not None else 0

    def warnings(self) -> list[str]:
        """Return the sentences about datagrams that may not have arrived although the kernel accepted them."""
        return link_warnings(
            accepted=self.stats.datagrams,
            refused=self.stats.refused,
            interface_drops=self.interface_drops(),
            interface=self.interface_name,
        )

    @property
    def interface_name(self) -> str:
        """The interface that datagrams leave through; empty if they stay on this machine."""
        return self._departure.interface_name if self._departure is not None else ""

    def send_batches(self, batches: Sequence[GsoBatch]) -> None:
        """Send `batches` in order, many in one system call. Raises LinkError like `send`."""
        self.begin()
        done = 0
        while done < len(batches):
            if self._gso and len(batches) - done >= MIN_BATCHES:
                group = batches[done : done + MAX_BATCHES]
                sent = self._send_group(group)
                done += sent
                if sent == len(group):
                    continue
            try:
                self.send_batch(batches[done])
            except UnsentError as error:
                error.unsent += tuple(datagram for later in batches[done + 1 :] for datagram in later.datagrams)
                raise
            done += 1

    def _send_group(self, batches: Sequence[GsoBatch]) -> int:
        """Send `batches` in one system call; return how many the kernel accepted. The next call returns the error."""
        if self._sendmmsg is None:
            self._sendmmsg = SendmmsgSender(self._socket.fileno())
        sent, payload_bytes = self._sendmmsg.send(batches)
        if sent:
            self._count(sum([len(batch.datagrams) for batch in batches[:sent]]), payload_bytes)
        if sent < len(batches):
            self._is_icmp_error(OSError())
        return sent

    def send_batch(self, batch: GsoBatch) -> None:
        """Send one batch. Raises UnsentError like `send`."""
        datagrams = batch.datagrams
        if len(datagrams) > 1 and self._gso and self._send_segmented(batch):
            return
        for index in range(len(datagrams)):
            self._send_one(datagrams, index)

    def _send_segmented(self, batch: GsoBatch) -> bool:
        """Send `batch` in one call; return ``False`` when the kernel or the NIC cannot."""
        payload = b"".join(batch.datagrams)
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", batch.size))]
        retry = None
        while True:
            try:
                self._socket.sendmsg((payload,), control)
            except OSError as error:
                is_icmp = self._is_icmp_error(error)
                if error.errno in NO_GSO and not is_icmp:
                    self._gso = error.errno == errno.EMSGSIZE  # then the size is at fault, as sending one by one shows
                    return False
                retry = self._wait_or_raise(error, retry, batch.datagrams, is_icmp=is_icmp)
            else:
                self._count(len(batch.datagrams), len(payload))
                return True

    def _send_one(self, datagrams: Sequence[bytes], index: int) -> None:
        datagram = datagrams[index]
        retry = None
        while True:
            try:
                self._socket.send(datagram)
            except OSError as error:
                is_icmp = self._is_icmp_error(error)
                retry = self._wait_or_raise(error, retry, datagrams[index:], is_icmp=is_icmp)
            else:
                self._count(1, len(datagram))
                return

    def _count(self, datagrams: int, payload_bytes: int) -> None:
        stats = self.stats
        stats.datagrams += datagrams
        stats.payload_bytes += payload_bytes
        stats.calls += 1

    def _is_icmp_error(self, error: OSError) -> bool:
        """Return whether `error` is an ICMP reply to an earlier datagram; the current one was then not sent."""
        replies = icmp_replies(self._socket)
        is_refusal = error.errno == errno.ECONNREFUSED
        self.stats.refused += max(replies.refused, int(is_refusal and not replies.any_at_all))
        self._undelivered |= replies.others > 0
        return is_refusal or replies.any_at_all

    def _wait_or_raise(self, error: OSError, retry: _Retry | None, unsent: Sequence[bytes], *, is_icmp: bool) -> _Retry:
        """Wait until it is time to try again after `error`, or raise UnsentError."""
        now = self._clock.now()
        retry = retry or _Retry(started=now)
        target = f"{self._target}{f' through {self._nic.name}' if self._nic else ''}"
        if error.errno == errno.EMSGSIZE and not is_icmp:
            mtu = self._mtu()
            raise UnsentError(
                f"A datagram of {len(unsent[0])} bytes does not fit the MTU {mtu} of the route to {target}; set "
                f"payloadSize to auto, or to {mtu - self.header_bytes} at most.",
                tuple(unsent),
            ) from None
        if not is_icmp and error.errno not in FULL | DOWN:
            raise UnsentError(
                f"The link to {target} refused a datagram ({error.strerror}); check the network of this machine.",
                tuple(unsent),
            ) from None
        if now - retry.started > self.deadline_seconds:
            raise UnsentError(
                f"The link to {target} has accepted no datagram for {self.deadline_seconds:.0f} seconds "
                f"({self._reason(error)}); check the interface, the route and the firewall, then run again.",
                tuple(unsent),
            ) from None
        if is_icmp:
            return retry
        self.stats.retries += 1
        longest = MAX_PAUSE_FULL_SECONDS if error.errno in FULL else MAX_PAUSE_DOWN_SECONDS
        self._clock.sleep(backoff(retry.waits, first=FIRST_PAUSE_SECONDS, longest=longest))
        return retry._replace(waits=retry.waits + 1)

    def _reason(self, error: OSError) -> str:
        """Return the reason of `error` for a message."""
        with contextlib.suppress(ConfigurationError):  # the interface is missing; `error` names that
            if self._nic is not None and not nic_named(self._nic.name).is_up:
                return f"the interface {self._nic.name} is down"
        return error.strerror or str(error)

    def close(self) -> None:
        """Close the socket."""
        if self._departure is not None:
            self._departure.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
