"""The addresses of copies of a topic on the command line; must not know how a copy is read.

``kafka://HOST:PORT[,HOST:PORT]/TOPIC`` is a topic in Kafka, ``PLACE#[REGION/]TOPIC[@TOPIC-ID]`` one in an archive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapless_archive.store.places import PlaceAddress, parse_place

_KAFKA = re.compile(r"kafka://([^/@\s]+)/([-._a-zA-Z0-9]{1,249})")
_ARCHIVED = re.compile(r"(?:([^/@#]+)/)?([-._a-zA-Z0-9]{1,249})(?:@([-_A-Za-z0-9]+))?")


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic in Kafka."""

    bootstrap_servers: str
    topic: str

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap_servers}/{self.topic}"


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic in an archive."""

    place: PlaceAddress
    topic: str
    region: str | None = None
    """``None`` for the only region of the archive."""
    topic_id: str | None = None
    """``None`` for the newest generation, if the commits prove which it is."""

    def __str__(self) -> str:
        region = f"{self.region}/" if self.region else ""
        topic_id = f"@{self.topic_id}" if self.topic_id else ""
        return f"{self.place}#{region}{self.topic}{topic_id}"


CopyOfTopic = KafkaTopic | ArchivedTopic


def parse_copy(text: str) -> CopyOfTopic:
    """Parse an address. Raises ValueError with the end of the sentence "it must be …"."""
    if text.startswith("kafka:"):
        found = _KAFKA.fullmatch(text)
        if found is None:
            raise ValueError("kafka://HOST:PORT/TOPIC, with several bootstrap servers separated by commas")
        return KafkaTopic(found[1], found[2])
    place, separator, name = text.rpartition("#")
    archived = _ARCHIVED.fullmatch(name)
    if not separator or archived is None:
        raise ValueError("kafka://HOST:PORT/TOPIC, or PLACE#TOPIC with a folder or s3://BUCKET/PREFIX as PLACE")
    return ArchivedTopic(parse_place(place), archived[2], archived[1], archived[3])
