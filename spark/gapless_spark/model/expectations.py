"""The offsets that are expected: ``topic:partition:first-last``, and inventories of the sending side.

Must not know what was received, nor how an inventory arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_topic, unpadded_decimal
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from gapless_spark.model.newest_entries import NewestEntries


class Bounds(StrEnum):
    """Where an expectation comes from."""

    GIVEN = "given"
    """The settings; what is received beyond it is unexpected."""
    INVENTORY = "manifest"
    """An inventory, and perhaps the settings; what is received beyond it is older or newer than the inventory."""
    SEEN = "seen"
    """Nothing is configured: from the lowest to the highest offset received."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected offsets of one partition."""

    offsets: OffsetRanges
    bounds: Bounds = Bounds.GIVEN
    absent: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets without an event upstream, which are not missing whether they were received or not."""
    ambiguous_from: int | None = None
    """The first offset that identified other events in an earlier inventory, because the upstream log was truncated:
    it is unknown which of the two events were received. ``None`` for none."""


Expectations = dict[TopicPartition, Expectation]
"""By topic and downstream partition."""


def parse_expectations(texts: Iterable[str], file: Path | None = None) -> Expectations:
    """Read `texts` and the lines of `file`; several for one partition add up.

    Raises:
        ConfigurationError: one is not ``topic:partition:first-last``, or the file cannot be read.
    """
    expected: dict[TopicPartition, OffsetRanges] = {}
    for text, origin in [(text, "") for text in texts] + (_read_lines(file) if file is not None else []):
        partition, offsets = _parse_expectation(text, origin)
        expected[partition] = expected.get(partition, OffsetRanges()) | offsets
    return {partition: Expectation(offsets) for partition, offsets in expected.items()}


def add_inventories(given: Expectations, inventories: NewestEntries, topics: Collection[str] = ()) -> Expectations:
    """Add the partitions of `inventories` to the `given` expectations.

    Args:
        given: stay expected, whatever an inventory lists.
        inventories: all of their partitions are expected, also those without events.
        topics: the topics of the inventories to use; empty for all.

    Raises:
        ConfigurationError: no inventory lists one of `topics`.
    """
    expected = dict(given)
    listed = set()
    shrunk = {(each.topic, each.partition): each for each in inventories.truncated}
    for partition, entry in inventories.entries().items():
        listed.add(entry.topic)
        if not topics or entry.topic in topics:
            more = given[partition].offsets if partition in given else OffsetRanges()
            absent = entry.absent if entry.absent is not None else OffsetRanges()
            truncated = shrunk.get(partition)
            expected[partition] = Expectation(
                entry.events | more,
                Bounds.INVENTORY,
                absent - more,
                None if truncated is None else truncated.first_difference,
            )
    for topic in topics:
        if topic not in listed:
            raise ConfigurationError(
                f"No inventory lists the topic {topic} of expectTopics; correct the name, or run gapless inventory for "
                f"it. The inventories list {', '.join(sorted(listed)) or 'no topic'}."
            )
    return expected


def _parse_expectation(text: str, origin: str) -> tuple[TopicPartition, OffsetRanges]:
    # From the right, because the name of a translated topic may contain any character.
    prefix, _, offsets_text = text.rpartition(":")
    topic, _, partition_text = prefix.rpartition(":")
    first_text, _, last_text = offsets_text.partition("-")
    partition = unpadded_decimal(partition_text, MAX_PARTITION)
    first, last = unpadded_decimal(first_text, MAX_OFFSET), unpadded_decimal(last_text, MAX_OFFSET)
    if not is_topic(topic) or partition is None or first is None or last is None:
        raise ConfigurationError(
            f"The expectation {text!r}{origin} is not topic:partition:first-last, for example transfer:0:0-999999."
        )
    if last < first:
        raise ConfigurationError(
            f"The expectation {text!r}{origin} ends before it begins; give the lower offset first (both are inclusive)."
        )
    return (topic, partition), OffsetRanges([(first, last)])


def _read_lines(file: Path) -> list[tuple[str, str]]:
    try:
        lines = read_small(file).decode("utf-8-sig").splitlines()
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
