"""What an error of a sending socket means: whether it passes, and whether it is an ICMP reply.

Must not know what follows from it.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import sys
from typing import NamedTuple

FULL = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM})
"""The queue is full: passes soon."""
DOWN = frozenset(
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
"""The link is down: passes when it is repaired."""
NO_GSO = frozenset({errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EMSGSIZE})
_ORIGINS_ICMP = frozenset({2, 3})
"""Origins of a queued error (SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6): a host, about an earlier datagram."""


class IcmpReplies(NamedTuple):
    """The ICMP errors that a socket has received since the last call."""

    refused: int
    """How often a host replied "port unreachable"."""
    others: int
    """Other ICMP errors: also this machine reports so that it could not deliver a datagram to the next hop."""

    @property
    def any_at_all(self) -> bool:
        """Whether there were any."""
        return bool(self.refused or self.others)


def icmp_replies(connected: socket.socket) -> IcmpReplies:
    """Read the queue of errors of `connected`; never waits."""
    refused = others = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            _, control, _, _ = connected.recvmsg(0, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            for _, _, content in control:
                if len(content) > 4 and content[4] in _ORIGINS_ICMP:
                    if int.from_bytes(content[:4], sys.byteorder) == errno.ECONNREFUSED:
                        refused += 1
                    else:
                        others += 1
    return IcmpReplies(refused, others)


def wait_for_reply(connected: socket.socket, seconds: float) -> None:
    """Wait up to `seconds` for an ICMP error."""
    poll = select.poll()
    poll.register(connected, 0)  # POLLERR is always reported
    poll.poll(seconds * 1000)
