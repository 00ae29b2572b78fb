"""Owns the settings of the way over the link; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_api.base.settings import Setting, boolean, integer
from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_sender.settings.values import address, code_point, payload_size

_GROUP = "The link"

LINK: tuple[Setting, ...] = (
    Setting(
        "targetIP",
        "Address or name of the receiver: IPv4, IPv6, broadcast or multicast.",
        metavar="HOST",
        required=True,
        group=_GROUP,
    ),
    Setting(
        "targetPort",
        "UDP port of the receiver.",
        parse=integer(1, 65535),
        metavar="PORT",
        required=True,
        group=_GROUP,
    ),
    Setting(
        "nic",
        "Network interface to send from; nothing for the one the routing table gives.",
        metavar="NAME",
        group=_GROUP,
    ),
    Setting(
        "sourceAddress",
        "IP address to send from; a link-local one of IPv6 with its zone (fe80::1%eth0), unless nic says it.",
        parse=address,
        metavar="IP",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "dscp",
        "Differentiated services code point of every datagram, 0 to 63 or a name (EF, AF21, CS1, LE …), so that the "
        "network before the diode can give the resend the class it deserves, such as one below the live stream.",
        parse=code_point,
        shown_default="the kernel's, 0",
        metavar="0-63|NAME",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "ttl",
        "Time to live (IPv6: hop limit) of every datagram.",
        parse=integer(1, 255),
        shown_default="the kernel's: 64, and 1 to a multicast group, which then ends at the first router",
        metavar="1-255",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "payloadSize",
        "Largest UDP payload in bytes, 500 to 65459; auto or 0 for what the interface's MTU carries.",
        parse=payload_size,
        default=1400,
        shown_default="1400",
        metavar="BYTES|auto",
        group=_GROUP,
    ),
    Setting(
        "maxFragments",
        "Events that need more datagrams than this are not sent but reported as TooLarge, because the receiver "
        "would drop them.",
        parse=integer(1, 65535),
        default=4096,
        shown_default="4096, the usual receiver's limit",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "copies",
        "How often every datagram is sent, against loss on the link; the receiver drops what it has.",
        parse=integer(1, 100),
        default=1,
        shown_default="1",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "statusPackets",
        "Whether to send the status texts at start and end that the receiver writes to its internal topic.",
        parse=boolean,
        default=True,
        shown_default="true",
        metavar="true|false",
        switch=True,
        own=True,
        group=_GROUP,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings(TypedSettings):
    """The way over the link."""

    target_ip: str = setting("targetIP")
    target_port: int
    nic: str | None
    source_address: str | None
    dscp: int | None
    ttl: int | None
    payload_size: int
    """In bytes; 0 for what the interface's MTU carries."""
    copies: int
    max_fragments: int = 4096
    status_packets: bool = True
