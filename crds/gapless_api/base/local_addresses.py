"""Owns which addresses belong to a machine itself, to its link or to its cloud, and what a host resolves to.

Must not know who connects. A sender on its node's network would reach there what listens for the node alone.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN_NETWORKS = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "100.100.100.200/32", "fd00:ec2::/32")))
"""This host, and services of clouds for their machines (metadata, credentials) that are not at a link-local address."""


def is_local(text: str) -> bool:
    """Whether an IP address is loopback, link-local, unspecified or a cloud's metadata service.

    `v1alpha1.hosts.LOCAL` says the same of what a spec names.
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
    """Make sure that no host resolves to such an address. Names that do not resolve are skipped.

    Args:
        hosts: names or addresses, each with its port.
        what: what they are, as the sentence begins, such as ``The bootstrap server``.

    Raises:
        ConfigurationError: one does.
    """
    for host, port in hosts:
        for address in _addresses(host.strip("[]"), port):
            if is_local(address):
                raise ConfigurationError(
                    f"{what} {host}:{port} resolves to {address}, a loopback, link-local or metadata address, which a "
                    f"sender on its node's network may not use; ask the platform team for one that other machines "
                    f"reach, too."
                )


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(entry[4][0]) for entry in found})
