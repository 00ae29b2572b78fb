"""How Kafka reads the values of properties, as ``ConfigDef.parseType`` of its clients does. Pure."""

from __future__ import annotations

import re

_SPACE = "".join(map(chr, range(0x21)))
"""What ``String.trim`` removes; other spaces of Unicode belong to a value."""
_AROUND_COMMAS = " \t\n\v\f\r"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 1_000


def trimmed(text: str) -> str:
    """Return the text of any value."""
    return text.strip(_SPACE)


def boolean(text: str) -> bool:
    """Return a value of type BOOLEAN. Raises ValueError with the completion of "must be …"."""
    found = {"true": True, "false": False}.get(trimmed(text).lower())
    if found is None:
        raise ValueError("true or false")
    return found


def integer(text: str, bits: int = 32) -> int:
    """Return a value of type INT, or LONG with 64 bits. Raises ValueError with the completion of "must be …"."""
    word, limit = trimmed(text), 2 ** (bits - 1)
    if len(word) > _MAX_DIGITS or not _INTEGER.fullmatch(word) or not -limit <= int(word) < limit:
        raise ValueError(f"an integer of {bits} bits, in digits")
    return int(word)


def words(text: str) -> list[str]:
    """Return a value of type LIST; words may be empty."""
    text = trimmed(text)
    return [word.strip(_AROUND_COMMAS) for word in text.split(",")] if text else []
