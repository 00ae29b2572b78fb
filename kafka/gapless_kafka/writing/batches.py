"""Owns how large batches may be that a producer sends: Kafka's limit of a topic holds for whole batches. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_kafka.topics.target_topics import TopicDescription

MOST_BATCH_BYTES = 1_000_000
_OVERHEAD = 1024
"""Of a batch, and the least that one may have."""


def batch_bytes(topics: Iterable[TopicDescription]) -> int:
    """The size of batches, before compression, that each of these topics takes; a larger record is sent alone."""
    limits = [int(topic.configuration.get("max.message.bytes", MOST_BATCH_BYTES)) for topic in topics]
    return max(min([MOST_BATCH_BYTES, *(limit - _OVERHEAD for limit in limits)]), _OVERHEAD)
