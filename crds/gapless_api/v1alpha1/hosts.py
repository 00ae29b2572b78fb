r"""Owns how a host of the network is written in a spec, and which hosts no spec may name; must not know any kind.

Loopback, link-local and metadata addresses are refused, because pods of senders are on the network of their node: there
these addresses lead to what listens for the node alone. Only what a spec says is looked at here; what a name resolves
to is for the sender to see. The expressions mean the same in RE2 and in Python.
"""

_LABEL = "[-_a-zA-Z0-9]+"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# Resolvers read a name that ends in a number as an address (127.1, 0x7f000001, 2130706433), so no such name is taken.
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
            r"100\.100\.100\.200",  # the metadata service of one more
            r"\[[0:]*1?\]",  # :: and ::1
            r"(?i:\[fe[89ab][0-9a-f]:[0-9a-f:]*\])",  # fe80::/10
            r"(?i:\[[0:]*:ffff:[0-9a-f:]*\])",  # IPv4 in IPv6, of whichever kind
            r"(?i:\[fd00:0?ec2:[0-9a-f:]*\])",  # services of a cloud for its machines, over IPv6
        )
    )
    + ")"
)
"""Hosts that no spec may name; `local_addresses.is_local` says the same of what a name resolves to."""


def cel(pattern: str) -> str:
    """`pattern` as a text in CEL."""
    return "'" + pattern.replace("\\", "\\\\") + "'"
