"""Owns what is wrong with connections to brokers and with certificates, theirs and ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gapless_kafka.doctor.kinds import FindingId, finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gapless_api.wire.doctor_report import DoctorFinding, Side
    from gapless_kafka.doctor.observed import BrokerConnection, Certificate


def connection_findings(side: Side, connections: Sequence[BrokerConnection]) -> Iterator[DoctorFinding]:
    """Brokers that cannot be connected to, or are not trusted."""
    for one in connections:
        name = f"broker {one.broker.id} at {one.broker.address}" if one.broker.id >= 0 else f"{one.broker.address}"
        if one.problem:
            message = f"No connection to {name} comes about ({one.problem})."
            yield finding(FindingId.BROKER_UNREACHABLE, side, message, where=one.broker.address)
        elif one.distrust:
            message = f"The certificate of {name} is not trusted ({one.distrust})."
            yield finding(FindingId.CERTIFICATE_REFUSED, side, message, where=one.broker.address)


def certificate_findings(
    side: Side, certificates: Iterable[Certificate], *, at_ms: float, days: int
) -> Iterator[DoctorFinding]:
    """Certificates that have expired, are not valid yet, or expire within so many days."""
    now = datetime.fromtimestamp(at_ms / 1000, UTC)
    by_certificate: dict[tuple[str, datetime, datetime, str], list[str]] = {}
    for one in certificates:
        places = by_certificate.setdefault((one.subject, one.begins, one.expires, one.setting), [])
        if one.where not in places:
            places.append(one.where)
    for (subject, begins, expires, setting), places in by_certificate.items():
        what = f"The certificate {subject} of {setting or 'the brokers'}"
        where = ", ".join(places[:5])
        if expires <= now:
            message = f"{what} expired on {expires:%Y-%m-%d at %H:%M} UTC."
            yield finding(FindingId.CERTIFICATE_EXPIRED, side, message, where=where)
        elif begins > now:
            message = f"{what} is not valid before {begins:%Y-%m-%d at %H:%M} UTC, or this machine's clock is wrong."
            yield finding(FindingId.CERTIFICATE_EXPIRED, side, message, where=where)
        elif expires <= now + timedelta(days=days):
            left = (expires - now) / timedelta(days=1)
            message = f"{what} expires on {expires:%Y-%m-%d}, in {left:.0f} days."
            yield finding(FindingId.CERTIFICATE_EXPIRES, side, message, where=where)
