"""Owns what metadata and canonical forms of bundles and inventories share: moments, ids, texts, lists of ranges.

Must not know what either of them says.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_api.offsets.ranges import OffsetRanges

_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_RANGES_AT_ONCE = 8192


def moment_text(moment: datetime) -> str:
    """Write `moment`, which has a time zone, in UTC without fractions of a second, like 2026-11-20T10:00:00Z."""
    return moment.astimezone(UTC).strftime(_MOMENT)


def moment_of(text: str) -> datetime | None:
    """Read a moment like 2026-11-20T10:00:00Z; ``None`` when it is written in another way."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text, re.ASCII):
        return None
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None


def content_id(moment: datetime, sha256: str) -> str:
    """The id of what was made at `moment` (UTC): it sorts by time and ends alike for the same content."""
    return f"{moment:%Y%m%d-%H%M%S}-{sha256[:8]}"


def encodable(source: Mapping[str, str]) -> dict[str, str]:
    """Replace what UTF-8 cannot hold: names of files and environment variables may bring it."""
    return {_encodable(name): _encodable(text) for name, text in source.items()}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def listed(before: str, ranges: OffsetRanges) -> Iterator[bytes]:
    """Yield `before` and the ranges as JSON, separated by commas, in pieces of bounded size; nothing without ranges.

    ``[a]`` is one offset, ``[a,b]`` more.
    """
    for low in range(0, len(ranges), _RANGES_AT_ONCE):
        pairs = ranges.pairs(low, low + _RANGES_AT_ONCE)
        texts = [f"[{first},{last}]" if first != last else f"[{first}]" for first, last in pairs]
        yield (before + ",".join(texts)).encode("ascii")
        before = ","
