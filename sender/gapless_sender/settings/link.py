"""The settings of the link; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_api.base.quantities import boolean, integer
from gapless_api.base.typed_settings import TypedSettings, declare
from gapless_sender.settings.values import address, code_point, payload_size

_GROUP = "The link"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings(TypedSettings):
    """The link to the receiver."""

    target_ip: str = declare(
        "targetIP",
        "Address or name of the receiver: IPv4, IPv6, broadcast or multicast.",
        metavar="HOST",
        required=True,
        group=_GROUP,
        peer=True,
    )
    target_port: int = declare(
        "targetPort",
        "UDP port of the receiver.",
        parse=integer(1, 65535),
        metavar="PORT",
        required=True,
        group=_GROUP,
        peer=True,
    )
    nic: str | None = declare(
        "nic",
        "Network interface to send from; empty for the routing table's choice.",
        metavar="NAME",
        group=_GROUP,
        peer=True,
    )
    source_address: str | None = declare(
        "sourceAddress",
        "IP address to send from; a link-local IPv6 address needs its zone (fe80::1%eth0) or nic.",
        parse=address,
        metavar="IP",
        group=_GROUP,
    )
    dscp: int | None = declare(
        "dscp",
        "Differentiated services code point of every datagram, 0 to 63 or a name (EF, AF21, CS1, LE …), so that the "
        "network in front of the diode can give the resend a lower class than the live stream.",
        parse=code_point,
        shown_default="the kernel's, 0",
        metavar="0-63|NAME",
        group=_GROUP,
    )
    ttl: int | None = declare(
        "ttl",
        "Time to live (IPv6: hop limit) of every datagram.",
        parse=integer(1, 255),
        shown_default="the kernel's: 64, and 1 for multicast, which does not pass a router",
        metavar="1-255",
        group=_GROUP,
    )
    payload_size: int = declare(
        "payloadSize",
        "Largest UDP payload in bytes, 500 to 65459; auto or 0 for what fits the interface's MTU.",
        parse=payload_size,
        default=1400,
        metavar="BYTES|auto",
        group=_GROUP,
        peer=True,
    )
    """In bytes; 0 for what fits the interface's MTU."""
    max_fragments: int = declare(
        "maxFragments",
        "Events that need more datagrams than this are reported as TooLarge and not sent, because the receiver would "
        "drop them.",
        parse=integer(1, 65535),
        default=4096,
        shown_default="4096, the usual receiver's limit",
        metavar="N",
        group=_GROUP,
    )
    copies: int = declare(
        "copies",
        "Copies of every datagram, against loss on the link; the receiver drops duplicates.",
        parse=integer(1, 100),
        default=1,
        metavar="N",
        group=_GROUP,
    )
    status_packets: bool = declare(
        "statusPackets",
        "Send status texts at start and end, which the receiver writes to its internal topic.",
        parse=boolean,
        default=True,
        group=_GROUP,
    )
    strict_link: bool = declare(
        "strictLink",
        "End with exit code 5 when a host replies that no program listens at the target (connection refused), or when "
        "the interface drops datagrams. Without it, both are a warning in the last line.",
        parse=boolean,
        default=False,
        group=_GROUP,
    )


LINK = LinkSettings.declared()
