"""The check that a host is no loopback, link-local, unspecified or cloud metadata address.

Must not know who connects. A sender on the host network could otherwise reach services that listen for the node alone.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

from gapless_api.base.errors import ConfigurationError

_OWN_NETWORKS = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "100.100.100.200/32", "fd00:ec2::/32")))
"""This host, and cloud services for metadata and credentials that are not at a link-local address."""


def is_local(text: str) -> bool:
    """Whether an IP address is loopback, link-local, unspecified or the metadata service of a cloud.

    `v1alpha1.hosts.LOCAL` is the same rule for hosts in a spec.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or any(address in network for network in _OWN_NETWORKS)
    )


def refuse_local(hosts: Iterable[tuple[str, int]], *, what: str) -> None:
    """Check that no host resolves to a local address. Names that do not resolve are skipped.

    Args:
        hosts: names or addresses, each with its port.
        what: what they are, as the subject of the message, such as ``The bootstrap server``.

    Raises:
        ConfigurationError: a host resolves to a local address.
    """
    for host, port in hosts:
        for address in _addresses(host.strip("[]"), port):
            if is_local(address):
                raise ConfigurationError(
                    f"{what} {host}:{port} resolves to {address}, a loopback, link-local or metadata address, which a "
                    f"sender on the host network may not use; ask the platform team for an address that other machines "
                    f"can reach."
                )


def _addresses(host: str, port: int) -> list[str]:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(entry[4][0]) for entry in entries})
