"""Owns from when the work of a Resend is, for Diodes that take only newer work; must not know what was sent before."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text

if TYPE_CHECKING:
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus

_MARK = re.compile(r"(\d{8}-\d{6})-")
"""How the id of a bundle begins (`gapless_api.codec.canonical.mark_id`)."""


def too_old(resend: Resend, status: ResendStatus, not_before: datetime | None) -> str:
    """Why the work may have been sent before the ledger begins; empty when it was not, or `force` is given.

    Args:
        resend: what to send.
        status: with the id of its bundle.
        not_before: of the Diode.
    """
    if not_before is None or resend.spec.force is not None:
        return ""
    spec, limit = resend.spec, moment_text(not_before)
    made: datetime | None
    if spec.time_range is not None:
        what, made = "its time range begins", spec.time_range.from_
    else:
        what, made = "its bundle was created", _made(status.bundle_id) if spec.bundle is not None else None
    if made is not None and made >= not_before:
        return ""
    subject = "offsets do" if spec.offsets is not None else "its bundle does"
    why = f"{what} at {moment_text(made)}" if made is not None else f"{subject} not show when the work was created"
    return (
        f"Diode {spec.diode_ref.name} sends work from before {limit} only with force (spec.notBefore of the Diode), "
        f"because it may have been sent before; {why}. To send it, set spec.force to a word."
    )


def _made(bundle_id: str | None) -> datetime | None:
    found = _MARK.match(bundle_id or "")
    try:
        return None if found is None else datetime.strptime(found.group(1), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
