"""Owns what should have been received: ``topic:partition:first-last``; must not know what was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.errors import ConfigurationError
from gapless_api.ids import MAX_OFFSET, MAX_PARTITION, is_topic, unpadded_decimal
from gapless_api.offsets import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Expectations = dict[tuple[str, int], OffsetRanges]
"""The offsets that should be there, by topic and downstream partition; several lines for one partition add up."""


def parse_expectations(texts: Iterable[str], file: Path | None = None) -> Expectations:
    """Read `texts` and the lines of `file`.

    Raises:
        ConfigurationError: one is not ``topic:partition:first-last``, or the file cannot be read.
    """
    expected: Expectations = {}
    for text, place in [(text, "") for text in texts] + (_lines(file) if file is not None else []):
        where, offsets = _parsed(text, place)
        expected[where] = expected.get(where, OffsetRanges()) | offsets
    return expected


def _parsed(text: str, place: str) -> tuple[tuple[str, int], OffsetRanges]:
    # From the right: topics are translated on the way and may hold anything.
    begin, _, offsets_text = text.rpartition(":")
    topic, _, partition_text = begin.rpartition(":")
    first_text, _, last_text = offsets_text.partition("-")
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    first, last = unpadded_decimal(first_text, MAX_OFFSET), unpadded_decimal(last_text, MAX_OFFSET)
    if not is_topic(topic) or partition is None or first is None or last is None:
        raise ConfigurationError(
            f"The expectation {text!r}{place} is not topic:partition:first-last; write for example transfer:0:0-999999."
        )
    if last < first:
        raise ConfigurationError(
            f"The expectation {text!r}{place} ends before it begins; both offsets are inclusive, the lower comes first."
        )
    return (topic, partition), OffsetRanges([(first, last)])


def _lines(file: Path) -> list[tuple[str, str]]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(
            f"The file {file} of expectFile cannot be read ({reason}); give a file with a line "
            f"topic:partition:first-last for each partition."
        ) from None
    return [
        (line.strip(), f" in {file}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
