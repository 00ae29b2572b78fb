"""Owns how texts of ``gapless resend``'s settings become values; must not know which setting has which form.

Each function raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.settings import choice, integer
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_sender.base.network import LEAST_PAYLOAD_SIZE, MOST_PAYLOAD_SIZE
from gapless_sender.base.sharding import FileOrFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_archive.store.places import PlaceAddress

FILLABLE = ("NonExistent", "Expired", "TooLarge")
"""Reasons that ``fill`` may name; what is not written yet is never filled, because it will come."""


def payload_size(text: str) -> int:
    """Read the datagram size in bytes; 0 stands for "by the MTU of the network interface"."""
    wanted = f"auto, or an integer from {LEAST_PAYLOAD_SIZE} to {MOST_PAYLOAD_SIZE}"
    if text.lower() in {"auto", "0"}:
        return 0
    try:
        size = int(text)
    except ValueError:
        raise ValueError(wanted) from None
    if not LEAST_PAYLOAD_SIZE <= size <= MOST_PAYLOAD_SIZE:
        raise ValueError(wanted)
    return size


def rate(text: str) -> float:
    """Read a rate; zero and anything below (the peer writes -1) stand for no limit, which is 0.0."""
    try:
        found = float(text)
    except ValueError:
        raise ValueError("a number such as 5000 or 0.5; 0 or less for no limit") from None
    if found != found or found in {float("inf"), float("-inf")}:  # noqa: PLR0124 -- NaN alone differs from itself
        raise ValueError("a finite number; 0 or less for no limit")
    return max(found, 0.0)


def bit_rate(text: str) -> float:
    """Read bits per second, with an optional k, M or G (powers of 1,000)."""
    factors = {"k": 1e3, "m": 1e6, "g": 1e9}
    found = re.fullmatch(r"(-?[0-9.]+)\s*([kKmMgG]?)", text)
    if found is None:
        raise ValueError("a number of bits per second such as 8000000, 800k or 8M; 0 for no limit")
    bits = rate(found[1]) * factors.get(found[2].lower(), 1)
    if bits == float("inf"):
        raise ValueError("a finite number of bits per second; 0 for no limit")
    return bits


def translations(text: str) -> dict[str, str]:
    """Read the live sender's JSON object of upstream topic -> topic on the wire, and make sure it can be reversed."""
    wanted = 'a JSON object of upstream topic to topic on the wire, such as {"events":"transfer"}'
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise ValueError(wanted) from None
    if not isinstance(pairs, list) or not text.lstrip().startswith("{"):
        raise ValueError(wanted)
    found: dict[str, str] = {}
    by_wire: dict[str, str] = {}
    for upstream, wire in pairs:
        if not isinstance(wire, str) or not upstream or not wire:
            raise ValueError(wanted)
        if upstream in found:
            raise ValueError("a JSON object that names no topic twice")
        other = by_wire.setdefault(wire, upstream)
        if other != upstream:
            raise ValueError(
                f"reversible, but {other} and {upstream} both become {wire}, so that it is unknown which of the "
                f"two an event of {wire} came from; resend them one by one with one translation each"
            )
        found[upstream] = wire
    return found


def positive_seconds(text: str) -> float:
    """Read a duration in seconds, more than nothing."""
    try:
        found = float(text)
    except ValueError:
        raise ValueError("a number of seconds above 0") from None
    if not 0 < found < 1e9:
        raise ValueError("a number of seconds above 0")
    return found


def archive_place(text: str) -> PlaceAddress:
    """Read where an archive is."""
    from gapless_archive.store.places import parse_place  # noqa: PLC0415 -- not needed without an archive

    return parse_place(text)


def archive_region(text: str) -> str:
    """Read the region of an archive."""
    from gapless_archive.catalog.catalog import is_region  # noqa: PLC0415 -- not needed without an archive

    if not is_region(text):
        raise ValueError("a name of letters, digits, dashes, dots and underscores")
    return text


def seconds(text: str) -> float:
    """Read a duration in seconds, 0 for none."""
    try:
        return 0.0 if float(text) == 0 else positive_seconds(text)
    except ValueError:
        raise ValueError("a number of seconds, 0 or more") from None


def reasons(text: str) -> tuple[str, ...]:
    """Read the reasons that may be filled."""
    one = choice(*FILLABLE)
    try:
        return tuple(dict.fromkeys(one(word.strip()) for word in text.split(",") if word.strip()))
    except ValueError:
        raise ValueError("a list of " + ", ".join(FILLABLE)) from None


def file_or_folder(text: str) -> FileOrFolder:
    """Read a path; one that ends with a slash is a folder even if there is none yet."""
    return FileOrFolder(Path(text), text.endswith("/"))


def _offset(least: int) -> Callable[[str], int]:
    return integer(least, MAX_OFFSET)


def partition(text: str) -> int | None:
    """The peer's -1 stands for all partitions."""
    number = integer(-1, MAX_PARTITION)(text)
    return None if number < 0 else number


def manual_offset(text: str) -> int | None:
    """The peer's -1 stands for "not given" or, as the end, for "to the end of the partition"."""
    number = _offset(-1)(text)
    return None if number < 0 else number


def address(text: str) -> str:
    """Read an IP address."""
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
    """Read a differentiated services code point, by number or by name."""
    named = _CODE_POINTS.get(text.upper())
    try:
        return integer(0, 63)(text) if named is None else named
    except ValueError:
        raise ValueError("an integer from 0 to 63, or a name such as EF, AF21 or CS1") from None


def sha256(text: str) -> str:
    """A digest (SHA-256) as 64 hexadecimal digits, in lower case."""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", text) is None:
        raise ValueError("a digest of 64 hexadecimal digits")
    return text.lower()


def topics(text: str) -> tuple[str, ...]:
    """Split a list of topics at its commas."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise ValueError("one or several topics, separated by commas")
    return found
