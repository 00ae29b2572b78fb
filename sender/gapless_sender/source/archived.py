"""What is exchanged with the archive: which topic is asked for, and how much of it was found; loads no archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicIdentity(NamedTuple):
    """Which topic a name stands for, without the archive."""

    name: str
    topic_id: str | None
    """As Kafka's tools write it; ``None`` when brokers do not return it."""
    cluster_id: str
    """Empty when brokers do not return it."""
    exists: bool
    """Whether Kafka has the topic."""


@dataclass(slots=True)
class ArchivedCounts:
    """What an archive has of some requested offsets, according to its catalog."""

    events: int = 0
    """Offsets with a record, which may be outside the time range."""
    absent: int = 0
    """Offsets known to have no record."""
    outside: int = 0
    """Offsets in segments without any record in the time range."""
    value_bytes: float = 0.0
    """Estimated, of `events`."""
