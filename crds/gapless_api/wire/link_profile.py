"""The link profile: the rate at which a link was measured to lose nothing, for every program that sends over it.

``gapless link receive`` writes it; ``gapless resend`` and the operator read it. Must not know how a link is measured.
"""

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small, write_atomically
from gapless_api.wire.form import Form, WireError, parse_json

MAX_AGE_DAYS = 90
"""An older profile is doubtful: cables, switches and the live stream's rate change."""
PAYLOAD_BYTES = range(500, 65_460)
"""Payload sizes that a sender of events can have."""
MAX_COPIES = 100
_HEADER_BYTES = {28: 4, 48: 6}
"""UDP and IP headers, with the version of IP."""
_MAX_RATE = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMeasurement:
    """The step of a link test on which a profile is based."""

    run: str
    """Number of the run, as both sides print it."""
    step: int
    probes: int
    """Datagrams that were sent in the step."""
    missing: int
    """Datagrams of which no intact copy arrived."""
    datagrams_per_second: float
    """The rate that the sender reached."""
    bits_per_second: float
    """The same on the wire above Ethernet."""
    margin: float
    """How far the profile's rates are below it; 0.2 is 20 %."""
    accepted_loss: float
    """The share of missing datagrams up to which a step was clean."""
    is_limit_known: bool
    """Whether a faster step was not clean; otherwise the link may carry more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """What a link carries, for all its senders together."""

    measured_at: str
    """When the run ended, like 2026-11-20T10:00:00Z."""
    measured_by: str
    """The command and its version."""
    target: str | None
    """The address that the probes were sent to; null if the kernel did not report it."""
    receiver_nic: str
    """The interface that `gapless link receive` listened on; empty for all."""
    port: int
    """The UDP port of the probes."""
    payload_size: int
    """UDP payload of every probe in bytes, from 500 to 65459."""
    header_bytes: int
    """Bytes of its UDP and IP headers: 28 for IPv4, 48 for IPv6."""
    copies: int
    """How often to send each datagram: once, or twice if the link lost some of the probes."""
    datagrams_per_second: float
    """Highest rate of datagrams, copies included."""
    bits_per_second: float
    """Highest rate of bits on the wire above Ethernet, copies and headers included."""
    measurement: ProfileMeasurement

    def events_per_second(self, copies: int) -> float:
        """Return the highest rate of events if each of their datagrams is sent `copies` times."""
        return round(self.datagrams_per_second / copies, 3)

    def doubts(self, *, now: datetime, target: str, payload_size: int) -> Iterator[str]:
        """Yield why the profile may not hold for a sender to `target` with `payload_size` (0: unknown).

        A `target` that is not an address is not compared.
        """
        measured = datetime.fromisoformat(self.measured_at)
        age = now.astimezone(UTC) - measured
        if age > timedelta(days=MAX_AGE_DAYS):
            yield f"it was measured {age.days:,} days ago; measure the link again"
        elif age < -timedelta(days=1):
            yield f"it was measured at {self.measured_at}, which is in the future; check the clocks of both sides"
        try:
            address = ipaddress.ip_address(target.partition("%")[0])
        except ValueError:
            address = None
        if address is not None:
            version = _HEADER_BYTES[self.header_bytes]
            if version != address.version:
                yield f"it was measured over IPv{version}, and {target} is an address of IPv{address.version}"
            elif self.target is not None and ipaddress.ip_address(self.target) != address:
                yield f"it was measured to {self.target}, and this sender sends to {target}"
        if payload_size and payload_size != self.payload_size:
            yield f"it was measured with payloads of {self.payload_size:,} bytes, and payloadSize is {payload_size:,}"


LINK_PROFILE = Form("link profile", "gaplessLinkProfile", 1, LinkProfile)
_ADVICE = "give the file that gapless link receive --profile wrote"


def write_link_profile(path: Path, profile: LinkProfile) -> None:
    """Write `profile` to `path`, completely or not at all. Raises LocalStorageError."""
    content = json.dumps(LINK_PROFILE.to_json(profile), indent=1).encode() + b"\n"
    write_atomically(path, content, what="link profile")


def read_link_profile(path: Path) -> LinkProfile:
    """Return the profile in `path`.

    Raises:
        ConfigurationError: the file cannot be read, or is not a profile that can be used.
    """
    try:
        content = read_small(path)
    except OSError as error:
        raise ConfigurationError(f"The link profile {path} cannot be read ({error.strerror}); {_ADVICE}.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    try:
        return parse_link_profile(text)
    except WireError as error:
        raise ConfigurationError(f"The link profile {path} cannot be used: {error}; {_ADVICE}.") from None


def parse_link_profile(text: str) -> LinkProfile:
    """Return the profile in `text`.

    Raises:
        WireError: it is not a profile, has another version, or states figures that no measurement has.
    """
    content = parse_json(text)
    if not isinstance(content, dict) or LINK_PROFILE.marker not in content:
        raise WireError("it is not a link profile, or is truncated")
    profile = LINK_PROFILE.from_json(content)
    for problem in _problems(profile):
        raise WireError(problem)
    return profile


def _problems(profile: LinkProfile) -> Iterator[str]:
    """Yield what contradicts a measurement."""
    measured = profile.measurement
    yield from _rate_problems("datagramsPerSecond", profile.datagrams_per_second, measured.datagrams_per_second)
    yield from _rate_problems("bitsPerSecond", profile.bits_per_second, measured.bits_per_second)
    if profile.payload_size not in PAYLOAD_BYTES:
        yield f"payloadSize is {profile.payload_size} and must be from {PAYLOAD_BYTES[0]} to {PAYLOAD_BYTES[-1]}"
    if profile.header_bytes not in _HEADER_BYTES:
        yield f"headerBytes is {profile.header_bytes} and must be 28 or 48"
    if not 1 <= profile.copies <= MAX_COPIES:
        yield f"copies is {profile.copies} and must be from 1 to {MAX_COPIES}"
    if measured.missing > measured.accepted_loss * measured.probes:
        yield f"{measured.missing:,} of {measured.probes:,} probes were missing, more than acceptedLoss"
    if not _is_moment(profile.measured_at):
        yield f"measuredAt is {profile.measured_at[:40]!r} and must be a time like 2026-11-20T10:00:00Z"
    if profile.target is not None and not _is_address(profile.target):
        yield f"target is {profile.target[:60]!r} and must be an IP address"


def _rate_problems(name: str, rate: float, reached: float) -> Iterator[str]:
    if not 0 < rate <= _MAX_RATE:
        yield f"{name} is {rate:,.12g} and must be above 0 and at most 1e12"
    if rate > reached:
        yield f"{name} is {rate:,.12g}, above the measured {reached:,.12g}"


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False
