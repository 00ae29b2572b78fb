r"""The keys of the gap detector's records, as bytes: the window of a key, and which keys are for the same window.

Must not know values, or who reads them. The key is ``topic:partition:windowMin``; until version 0.1.11 of the detector
it was ``topic_partition:windowMin``. Keys are split from the right, because topics may contain any character.

Spark applies these patterns as well: in Java, to text with one character per byte (ISO-8859-1). So they use only syntax
that means the same in Python and Java, and no `$`, `\Z`, `\z`, `\d` or `.`: Java's `$` and `\Z`, and Python's `$`,
match before a newline at the end, Python before 3.14 has no `\z`, `\d` can match digits of any script, and `.` does not
match a newline.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, is_topic, unpadded_decimal

_END = r"(?![\x00-\xff])"
OLD_KEY = rf"\A([^:]+)_([0-9]+):([0-9]+){_END}"
"""A key of the old form; its three groups, joined by colons, are the key of the new form."""
WINDOW_KEY = rf"\A([\x00-\xff]+):([0-9]+):([0-9]+){_END}"
"""Matches the result of `identity_of` for every key that names a window, and for some that do not."""
PLAIN_KEY = rf"\A([A-Za-z0-9._-]+):(0|[1-9][0-9]{{0,8}}):(0|[1-9][0-9]{{0,17}}){_END}"
"""Keys of the new form that are valid without further checks, as almost all keys are."""
_OLD_KEY, _WINDOW_KEY, _PLAIN_KEY = (
    re.compile(pattern.encode("ascii")) for pattern in (OLD_KEY, WINDOW_KEY, PLAIN_KEY)
)


class UndecodableRecordError(ValueError):
    """A record of the gaps topic is not what a gap detector writes; the message says which check failed."""


class GapKey(NamedTuple):
    """The window of a record. A record, or a tombstone, replaces earlier records with the same key."""

    topic: str
    partition: int
    """The downstream partition."""
    window_min: int


def identity_of(key: bytes) -> bytes:
    """Return the same bytes for all keys of a window: the key in its new form; other keys unchanged."""
    return _OLD_KEY.sub(rb"\1:\2:\3", key) if key.count(b":") == 1 else key


def decode_gap_key(key: bytes | None) -> GapKey:
    """Decode a key of either form.

    Raises:
        UndecodableRecordError: there is no key, or it has neither form.
    """
    if key is None:
        raise UndecodableRecordError("the record has no key")
    plain = _PLAIN_KEY.match(key)
    if plain is not None:
        return GapKey(plain[1].decode("ascii"), int(plain[2]), int(plain[3]))
    try:
        key.decode("utf-8")
    except UnicodeDecodeError:
        raise UndecodableRecordError(f"the key {_shown(key)} is not UTF-8 text") from None
    match = _WINDOW_KEY.match(identity_of(key))
    if match is not None:
        topic, partition_text, window_text = (part.decode("utf-8") for part in match.groups())
        partition = unpadded_decimal(partition_text, MAX_PARTITION)
        window_min = unpadded_decimal(window_text, MAX_OFFSET)
        if partition is not None and window_min is not None and is_topic(topic):
            return GapKey(topic, partition, window_min)
    raise UndecodableRecordError(f"the key {_shown(key)} is not topic:partition:windowMin")


def _shown(key: bytes) -> str:
    """Escape and shorten a key for a message."""
    return repr(key[:80].decode("utf-8", "backslashreplace")) + ("…" if len(key) > 80 else "")
