"""The result line of ``gapless link preflight``, which the operator reads; must not know how a link is checked."""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFound:
    """The route to the target."""

    type: str
    gateway: str | None
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightLine:
    """The state of the link of a machine."""

    nic: str
    exists: bool
    up: bool
    carrier: bool
    mtu: int | None
    largest_payload: int | None
    target: str
    port: int
    address: str | None
    route: RouteFound | None
    needs_neighbour: bool
    """Whether datagrams go to a single neighbour, whose hardware address must be known."""
    neighbour: str | None
    """State of the neighbour entry, as the kernel names it; null if there is none."""
    hardware_address: str | None
    message: str | None
    """What is wrong, in one sentence; null if nothing is."""


PREFLIGHT_LINE = Form("preflight line", "gaplessPreflight", 2, PreflightLine, event="preflight")
"""Version 1 had no version."""
