"""How values of a restore's settings are parsed from text; must not know which settings there are.

Each function raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gapless_api.base.quantities import boolean
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets.ranges import OffsetRange
from gapless_archive.catalog.catalog import is_region
from gapless_spark.settings.values import words

NO, WHILE_RESTORING, KEEP = "false", "true", "keep"
"""Whether settings of a target are changed."""


class SourceTopic(NamedTuple):
    """A topic of an archive, and its target."""

    region: str | None
    """``None`` for the only region of the archive, or that of the setting."""
    topic: str
    """With ``*`` at its end, all topics with this prefix."""
    target: str | None = None
    """``None`` for the same name, or that of the setting."""

    @property
    def archived(self) -> str:
        """The topic in the archive, as ``region/topic`` if the region is named."""
        return self.topic if self.region is None else f"{self.region}/{self.topic}"


class Remapping(NamedTuple):
    """The mapping from source partitions to target partitions."""

    is_modulo: bool = False
    """Whether the target is the source partition modulo the number of target partitions."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Partitions with another target; all others keep their number."""

    def target(self, partition: int, partitions: int) -> int:
        """Return the partition of a target that has `partitions` partitions."""
        if self.is_modulo:
            return partition % partitions
        return dict(self.pairs).get(partition, partition)


IDENTITY = Remapping()


def adjustment(text: str) -> str:
    """Parse whether settings of the target are changed."""
    if text.lower() == KEEP:
        return KEEP
    try:
        return WHILE_RESTORING if boolean(text) else NO
    except ValueError:
        raise ValueError("true, false or keep") from None


def offset_range(text: str) -> OffsetRange:
    """Parse FIRST-LAST, both inclusive; without LAST up to the end."""
    expected = "FIRST-LAST, both inclusive, or FIRST- for all offsets from FIRST"
    if text.endswith("-") and text[:-1].isdigit():
        text += str(MAX_OFFSET)
    match = re.fullmatch(r"(\d{1,19})(?:-(\d{1,19}))?", text)
    if match is None:
        raise ValueError(expected)
    first = int(match[1])
    last = int(match[2]) if match[2] is not None else first
    if not first <= last <= MAX_OFFSET:
        raise ValueError(expected)
    return OffsetRange(first, last)


def sources(text: str) -> tuple[SourceTopic, ...]:
    """Parse topics with their regions and targets."""
    topics = []
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
        topics.append(SourceTopic(region, topic, target or None))
    return tuple(topics)


def remapping(text: str) -> Remapping:
    """Parse the mapping of partitions."""
    if text == "modulo":
        return Remapping(is_modulo=True)
    pairs = []
    for word in words(text):
        match = re.fullmatch(r"(\d{1,10}):(\d{1,10})", word)
        if match is None or max(int(match[1]), int(match[2])) > MAX_PARTITION:
            raise ValueError("modulo, or pairs SOURCE:TARGET of partitions separated by commas, such as 6:0,7:1")
        pairs.append((int(match[1]), int(match[2])))
    if len(dict(pairs)) < len(pairs):
        raise ValueError("pairs SOURCE:TARGET that name no source partition twice")
    return Remapping(pairs=tuple(pairs))
