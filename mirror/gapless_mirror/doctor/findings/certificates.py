"""The findings about connections to brokers, and about certificates of brokers and in local files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gapless_mirror.doctor.kinds import FindingId, finding

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding, Side
    from gapless_mirror.doctor.observed import BrokerConnection, Certificate


def connection_findings(side: Side, connections: Sequence[BrokerConnection]) -> Iterator[DoctorFinding]:
    """Yield brokers that are unreachable or not trusted."""
    for connection in connections:
        address = connection.broker.address
        name = f"broker {connection.broker.id} at {address}" if connection.broker.id >= 0 else address
        if connection.problem:
            message = f"Cannot connect to {name} ({connection.problem})."
            yield finding(FindingId.BROKER_UNREACHABLE, side, message, where=address)
        elif connection.distrust:
            message = f"The certificate of {name} is not trusted ({connection.distrust})."
            yield finding(FindingId.CERTIFICATE_REFUSED, side, message, where=address)


def certificate_findings(
    side: Side, certificates: Iterable[Certificate], *, at_ms: float, days: int
) -> Iterator[DoctorFinding]:
    """Yield certificates that have expired, are not valid yet, or expire within `days`."""
    now = datetime.fromtimestamp(at_ms / 1000, UTC)
    by_certificate: dict[tuple[str, datetime, datetime, str], list[str]] = {}
    for certificate in certificates:
        key = (certificate.subject, certificate.begins, certificate.expires, certificate.setting)
        locations = by_certificate.setdefault(key, [])
        if certificate.where not in locations:
            locations.append(certificate.where)
    for (subject, begins, expires, setting), locations in by_certificate.items():
        title = f"The certificate {subject} of {setting or 'the brokers'}"
        where = ", ".join(locations[:5])
        if expires <= now:
            message = f"{title} expired on {expires:%Y-%m-%d at %H:%M} UTC."
            yield finding(FindingId.CERTIFICATE_EXPIRED, side, message, where=where)
        elif begins > now:
            message = f"{title} is not valid before {begins:%Y-%m-%d at %H:%M} UTC, or the local clock is wrong."
            yield finding(FindingId.CERTIFICATE_EXPIRED, side, message, where=where)
        elif expires <= now + timedelta(days=days):
            remaining_days = (expires - now) / timedelta(days=1)
            message = f"{title} expires on {expires:%Y-%m-%d}, in {remaining_days:.0f} days."
            yield finding(FindingId.CERTIFICATE_EXPIRES, side, message, where=where)
