"""Owns how a time in a setting becomes milliseconds since 1970; pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta


def moment(text: str) -> int:
    """Read an RFC 3339 time as milliseconds since 1970, the unit of Kafka's timestamps.

    Finer fractions are cut off, because Kafka has no finer timestamps.
    """
    wanted = "a time as RFC 3339 writes it, such as 2026-11-20T10:00:00Z or 2026-11-20T11:00:00+01:00"
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text) is None:
        raise ValueError(wanted)
    try:
        found = datetime.fromisoformat(text.upper())
        return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
