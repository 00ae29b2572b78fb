"""Owns the identity of an event on the wire and in the received topic; must not know what an event holds.

``<topic>_<partition>_<offset>``, decimal and unpadded. Topics may contain underscores, dots and dashes, so an id is
split from the right: the peer splits from the left into exactly three parts and loses every topic with an underscore.
"""

from typing import NamedTuple

MAX_OFFSET = 2**63 - 1
"""The largest offset Kafka can give (a signed 64-bit integer)."""
MAX_PARTITION = 2**31 - 1
"""The largest partition number Kafka can give (a signed 32-bit integer)."""
TopicPartition = tuple[str, int]
"""A topic and a partition of it, both as ids name them: downstream."""


class EventId(NamedTuple):
    """Where an event stood: topic and partition as the downstream side sees them, and the upstream offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}_{self.partition}_{self.offset}"


def parse_event_id(text: str) -> EventId | None:
    """Split `text` from the right; ``None`` for anything that is no event id (status, foreign keys, bad numbers)."""
    topic, _, offset_text = text.rpartition("_")
    topic, _, partition_text = topic.rpartition("_")
    partition, offset = unpadded_decimal(partition_text, MAX_PARTITION), unpadded_decimal(offset_text, MAX_OFFSET)
    if partition is None or offset is None or not is_topic(topic):
        return None
    return EventId(topic, partition, offset)


def unpadded_decimal(text: str, largest: int) -> int | None:
    """Read an unsigned decimal as senders write it: ASCII digits only, no sign, no padding; else ``None``."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or (text[0] == "0" and len(text) > 1):
        return None
    number = int(text)
    return number if number <= largest else None


def is_topic(text: str) -> bool:
    """Whether `text` can be the topic of an id.

    Only what could harm a line of text or its encoding is refused: topics are translated on the way, so they need not
    be names that Kafka would take.
    """
    return bool(text) and text.isprintable()
