"""Owns how the values of a restore's settings are read from text; must not know which settings there are.

Each function raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gapless_api.base.settings import boolean
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets.ranges import OffsetRange
from gapless_archive.catalog.catalog import is_region
from gapless_spark.settings.values import words

NO, WHILE_RESTORING, KEEP = "false", "true", "keep"
"""Whether settings of a target are changed."""


class SourceTopic(NamedTuple):
    """A topic of an archive, and where it goes."""

    region: str | None
    """``None`` for the only one of the archive, or the setting's."""
    topic: str
    """A ``*`` at its end stands for all topics that begin so."""
    target: str | None = None
    """``None`` for the same name, or the setting's."""


class Remapping(NamedTuple):
    """Which partition of the target each partition of the source goes to."""

    is_modulo: bool = False
    """The remainder of the division by the target's count of partitions."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Single partitions that go elsewhere."""

    def target(self, partition: int, partitions: int) -> int:
        """The partition of a target with so many `partitions`."""
        if self.is_modulo:
            return partition % partitions
        return dict(self.pairs).get(partition, partition)


SAME = Remapping()


def adjustment(text: str) -> str:
    """Read whether settings of the target are changed."""
    if text.lower() == KEEP:
        return KEEP
    try:
        return WHILE_RESTORING if boolean(text) else NO
    except ValueError:
        raise ValueError("true, false or keep") from None


def offset_range(text: str) -> OffsetRange:
    """Read FIRST-LAST, both inclusive; without LAST up to the end."""
    expected = "FIRST-LAST, both inclusive, or FIRST- for all from there on"
    if text.endswith("-") and text[:-1].isdigit():
        text += str(MAX_OFFSET)
    return OffsetRange(*_pair(text, MAX_OFFSET, expected))


def sources(text: str) -> tuple[SourceTopic, ...]:
    """Read topics of other regions, each with its target."""
    found = []
    for word in words(text):
        source, _, target = word.partition("=")
        region, slash, topic = source.partition("/")
        if (
            not slash
            or not is_region(region)
            or not is_topic(topic)
            or "/" in topic
            or (target and not is_topic(target))
        ):
            raise ValueError("REGION/TOPIC or REGION/TOPIC=TARGET, several separated by commas")
        found.append(SourceTopic(region, topic, target or None))
    return tuple(found)


def remapping(text: str) -> Remapping:
    """Read the rule for another count of partitions."""
    if text == "modulo":
        return Remapping(is_modulo=True)
    pairs = []
    for word in words(text):
        found = re.fullmatch(r"(\d{1,10}):(\d{1,10})", word)
        if found is None or max(int(found[1]), int(found[2])) > MAX_PARTITION:
            raise ValueError("modulo, or pairs SOURCE:TARGET of partitions separated by commas, such as 6:0,7:1")
        pairs.append((int(found[1]), int(found[2])))
    if len(dict(pairs)) < len(pairs):
        raise ValueError("pairs SOURCE:TARGET that name no source partition twice")
    return Remapping(pairs=tuple(pairs))


def _pair(text: str, most: int, expected: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,19})(?:-(\d{1,19}))?", text)
    if found is None:
        raise ValueError(expected)
    first = int(found[1])
    last = int(found[2]) if found[2] is not None else first
    if last < first or last > most:
        raise ValueError(expected)
    return first, last
