"""The encodings that bundles and inventories share: times, IDs, texts, lists of ranges.

Must not know bundles or inventories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges

_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_RANGES_PER_PIECE = 8192


def moment_text(moment: datetime) -> str:
    """Format `moment`, which has a time zone, in UTC without fractions of a second, like 2026-11-20T10:00:00Z."""
    return moment.astimezone(UTC).strftime(_MOMENT)


def moment_of(text: str) -> datetime | None:
    """Parse a time like 2026-11-20T10:00:00Z; ``None`` for any other format."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text, re.ASCII):
        return None
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None


def content_id(moment: datetime, sha256: str) -> str:
    """Return the ID of a file that was created at `moment` (UTC): IDs sort by time and end with the digest."""
    return f"{moment:%Y%m%d-%H%M%S}-{sha256[:8]}"


def encodable(source: Mapping[str, str]) -> dict[str, str]:
    """Replace characters that UTF-8 cannot encode; names of files and environment variables may contain some."""
    return {_encodable(name): _encodable(text) for name, text in source.items()}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def json_ranges(prefix: str, ranges: OffsetRanges) -> Iterator[bytes]:
    """Yield `prefix` and the ranges as JSON, separated by commas, in pieces of limited size; nothing without ranges.

    ``[a]`` is one offset, ``[a,b]`` more.
    """
    for low in range(0, len(ranges), _RANGES_PER_PIECE):
        pairs = ranges.pairs(low, low + _RANGES_PER_PIECE)
        texts = [f"[{first},{last}]" if first != last else f"[{first}]" for first, last in pairs]
        yield (prefix + ",".join(texts)).encode("ascii")
        prefix = ","
