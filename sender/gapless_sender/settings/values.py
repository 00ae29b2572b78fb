"""How the settings of ``gapless resend`` are parsed; must not know which setting has which form.

Each function raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.quantities import choice, integer, names
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_sender.base.network import MAX_PAYLOAD_SIZE, MIN_PAYLOAD_SIZE
from gapless_sender.base.sharding import FileOrFolder

if TYPE_CHECKING:
    from gapless_archive.store.places import PlaceAddress

FILLABLE = ("NonExistent", "Expired", "TooLarge")
"""Reasons that ``fill`` accepts; what is not yet written is never filled, because it may still be written."""


def payload_size(text: str) -> int:
    """Parse the datagram size in bytes; 0 means the MTU of the network interface."""
    if text.lower() in {"auto", "0"}:
        return 0
    try:
        return integer(MIN_PAYLOAD_SIZE, MAX_PAYLOAD_SIZE)(text)
    except ValueError:
        raise ValueError(f"auto, or an integer from {MIN_PAYLOAD_SIZE} to {MAX_PAYLOAD_SIZE}") from None


def rate(text: str) -> float:
    """Parse a rate; zero and less (the peer writes -1) mean no limit, which is 0.0."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError("a number such as 5000 or 0.5; 0 or less for no limit") from None
    if not math.isfinite(number):
        raise ValueError("a finite number; 0 or less for no limit")
    return max(number, 0.0)


def bit_rate(text: str) -> float:
    """Parse bits per second, with an optional k, M or G (powers of 1,000)."""
    factors = {"k": 1e3, "m": 1e6, "g": 1e9}
    match = re.fullmatch(r"(-?[0-9.]+)\s*([kKmMgG]?)", text)
    if match is None:
        raise ValueError("a number of bits per second such as 8000000, 800k or 8M; 0 for no limit")
    bits = rate(match[1]) * factors.get(match[2].lower(), 1)
    if bits == math.inf:
        raise ValueError("a finite number of bits per second; 0 for no limit")
    return bits


def translations(text: str) -> dict[str, str]:
    """Parse the live sender's JSON object of upstream topic to downstream topic, which must be reversible."""
    expected = 'a JSON object of upstream topic to downstream topic, such as {"events":"transfer"}'
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise ValueError(expected) from None
    if not isinstance(pairs, list) or not text.lstrip().startswith("{"):
        raise ValueError(expected)
    translated: dict[str, str] = {}
    by_downstream: dict[str, str] = {}
    for upstream, downstream in pairs:
        if not isinstance(downstream, str) or not upstream or not downstream:
            raise ValueError(expected)
        if upstream in translated:
            raise ValueError("a JSON object that names no topic twice")
        other = by_downstream.setdefault(downstream, upstream)
        if other != upstream:
            raise ValueError(
                f"reversible, but both {other} and {upstream} become {downstream}, so it is unknown from which of them "
                f"an event of {downstream} came; resend them separately, with one translation each"
            )
        translated[upstream] = downstream
    return translated


def positive_seconds(text: str) -> float:
    """Parse a duration in seconds, above 0."""
    try:
        duration = float(text)
    except ValueError:
        raise ValueError("a number of seconds above 0") from None
    if not 0 < duration < 1e9:
        raise ValueError("a number of seconds above 0")
    return duration


def archive_place(text: str) -> PlaceAddress:
    """Parse the address of an archive."""
    from gapless_archive.store.places import parse_place  # noqa: PLC0415 -- not needed without an archive

    return parse_place(text)


def archive_region(text: str) -> str:
    """Parse the region of an archive."""
    from gapless_archive.catalog.catalog import is_region  # noqa: PLC0415 -- not needed without an archive

    if not is_region(text):
        raise ValueError("a name of letters, digits, dashes, dots and underscores")
    return text


def seconds(text: str) -> float:
    """Parse a duration in seconds, 0 or more."""
    try:
        return 0.0 if float(text) == 0 else positive_seconds(text)
    except ValueError:
        raise ValueError("a number of seconds, 0 or more") from None


def reasons(text: str) -> tuple[str, ...]:
    """Parse the reasons for which offsets are filled."""
    reason = choice(*FILLABLE)
    try:
        return tuple(dict.fromkeys(reason(word.strip()) for word in text.split(",") if word.strip()))
    except ValueError:
        raise ValueError("a list of " + ", ".join(FILLABLE)) from None


def file_or_folder(text: str) -> FileOrFolder:
    """Parse a path; one that ends with a slash is a folder even if it does not exist yet."""
    return FileOrFolder(Path(text), text.endswith("/"))


def partition(text: str) -> int | None:
    """Parse a partition; the peer's -1 means all partitions."""
    number = integer(-1, MAX_PARTITION)(text)
    return None if number < 0 else number


def manual_offset(text: str) -> int | None:
    """Parse an offset; the peer's -1 means not set or, as the last offset, the end of the partition."""
    number = integer(-1, MAX_OFFSET)(text)
    return None if number < 0 else number


def address(text: str) -> str:
    """Parse an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("an IP address of this machine") from None


_CODE_POINTS = {
    **{f"CS{number}": number << 3 for number in range(8)},
    **{f"AF{kind}{drop}": kind << 3 | drop << 1 for kind in range(1, 5) for drop in range(1, 4)},
    "EF": 46,
    "VA": 44,
    "LE": 1,
    "DF": 0,
    "BE": 0,
}
"""Names of differentiated services code points: RFC 2474, 2597, 3246, 5865, 8622."""


def code_point(text: str) -> int:
    """Parse a differentiated services code point, by number or by name."""
    named = _CODE_POINTS.get(text.upper())
    try:
        return integer(0, 63)(text) if named is None else named
    except ValueError:
        raise ValueError("an integer from 0 to 63, or a name such as EF, AF21 or CS1") from None


def sha256(text: str) -> str:
    """Parse a SHA-256 digest of 64 hexadecimal digits; returned in lower case."""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", text) is None:
        raise ValueError("a digest of 64 hexadecimal digits")
    return text.lower()


topics = names("one or several topics, separated by commas")
"""Parses a list of topics."""
