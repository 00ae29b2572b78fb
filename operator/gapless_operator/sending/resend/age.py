"""The check of `spec.notBefore` of a Diode: whether the work of a Resend is older; must not know what was sent."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus

_BUNDLE_DATE = re.compile(r"(\d{8}-\d{6})-")
"""How the id of a bundle begins (`gapless_api.codec.canonical.content_id`)."""


def too_old(resend: Resend, status: ResendStatus, not_before: datetime | None) -> str:
    """Return why the work may have been sent before the ledger begins; empty when it was not, or `force` is set.

    Args:
        resend: what to send.
        status: with the id of its bundle.
        not_before: of the Diode.
    """
    if not_before is None or resend.spec.force is not None:
        return ""
    spec, limit = resend.spec, moment_text(not_before)
    created: datetime | None
    if spec.time_range is not None:
        what, created = "its time range begins", spec.time_range.from_
    else:
        created = _creation_time(status.bundle_id) if spec.bundle is not None else None
        what = "its bundle was created"
    if created is not None and created >= not_before:
        return ""
    subject = "offsets do" if spec.offsets is not None else "its bundle does"
    why = (
        f"{what} at {moment_text(created)}" if created is not None else f"{subject} not show when the work was created"
    )
    return (
        f"Diode {spec.diode_ref.name} sends work from before {limit} only with force (spec.notBefore of the Diode), "
        f"because it may have been sent before; {why}. To send it, set spec.force to any value."
    )


def _creation_time(bundle_id: str | None) -> datetime | None:
    match = _BUNDLE_DATE.match(bundle_id or "")
    try:
        return None if match is None else datetime.strptime(match.group(1), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
