"""The ID of an event on the wire and in the received topic; must not know the content of events.

``<topic>_<partition>_<offset>``, decimal and unpadded. Topics may contain underscores, dots and dashes, so an ID is
split from the right; the peer splits from the left into exactly three parts, and loses topics with an underscore.
"""

from typing import NamedTuple

MAX_OFFSET = 2**63 - 1
"""The largest offset in Kafka (a signed 64-bit integer)."""
MAX_PARTITION = 2**31 - 1
"""The largest partition number in Kafka (a signed 32-bit integer)."""
TopicPartition = tuple[str, int]
"""Topic and partition number, both downstream, as in event IDs."""


class EventId(NamedTuple):
    """The source of an event: topic and partition as the downstream side names them, and the upstream offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}_{self.partition}_{self.offset}"


def parse_event_id(text: str) -> EventId | None:
    """Split `text` from the right; ``None`` if it is no event ID (a status text, another key, an invalid number)."""
    topic, _, offset_text = text.rpartition("_")
    topic, _, partition_text = topic.rpartition("_")
    partition, offset = unpadded_decimal(partition_text, MAX_PARTITION), unpadded_decimal(offset_text, MAX_OFFSET)
    if partition is None or offset is None or not is_topic(topic):
        return None
    return EventId(topic, partition, offset)


def unpadded_decimal(text: str, largest: int) -> int | None:
    """Parse an unsigned decimal in ASCII digits without sign and padding; ``None`` for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or (text[0] == "0" and len(text) > 1):
        return None
    number = int(text)
    return number if number <= largest else None


def is_topic(text: str) -> bool:
    """Whether `text` can be the topic of an event ID.

    Topics may be translated on the way, so they need not be valid in Kafka; only characters that could break a line of
    text or its encoding are refused.
    """
    return bool(text) and text.isprintable()
