r"""The syntax of network hosts in a spec, and which hosts a spec must not name; must not know any kind.

Loopback, link-local and metadata addresses are refused, because sender pods use the host network, where these
addresses reach services that listen for the node only. Only the text of the spec is checked here; the sender checks
what a name resolves to. The expressions match the same in RE2 and in Python.
"""

_LABEL = "[-_a-zA-Z0-9]+"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# Resolvers read a name that ends in a number as an address (127.1, 0x7f000001, 2130706433), so such names are refused.
_NAME = rf"({_LABEL}\.)*([a-zA-Z_]|[0-9]+[-_a-wyzA-WYZ])[-_a-zA-Z0-9]*\.?"
HOST = rf"(\[[0-9a-fA-F:]+\]|{_BYTE}(\.{_BYTE}){{3}}|{_NAME})"
"""A name, an IPv4 address as four numbers, or an IPv6 address in brackets without zone and without IPv4 in it."""
PORT = ":[0-9]{1,5}"

LOCAL = (
    "("
    + "|".join(
        (
            rf"(?i:({_LABEL}\.)*localhost\.?|localhost\.localdomain\.?|ip6-localhost|ip6-loopback)",
            r"(?i:metadata(\.google\.internal)?\.?|instance-data(\.ec2\.internal)?\.?)",
            r"(0|127)\.[0-9.]+",  # this host, loopback
            r"169\.254\.[0-9.]+",  # link-local, with the metadata service of most clouds
            r"100\.100\.100\.200",  # the metadata service of Alibaba Cloud
            r"\[[0:]*1?\]",  # :: and ::1
            r"(?i:\[fe[89ab][0-9a-f]:[0-9a-f:]*\])",  # fe80::/10
            r"(?i:\[[0:]*:ffff:[0-9a-f:]*\])",  # IPv4-mapped IPv6
            r"(?i:\[fd00:0?ec2:[0-9a-f:]*\])",  # instance services of AWS over IPv6
        )
    )
    + ")"
)
"""Hosts that a spec must not name; `local_addresses.is_local` is the same rule for resolved addresses."""


def cel_string(pattern: str) -> str:
    """Return `pattern` as a CEL string literal."""
    return "'" + pattern.replace("\\", "\\\\") + "'"
