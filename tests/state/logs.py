"""What the logs of a topic hold now, read by a plain consumer. Must not know the product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException, TopicCollection

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster


class Found(NamedTuple):
    """A committed record."""

    offset: int
    value: bytes


@dataclass(frozen=True)
class Log:
    """One partition."""

    start: int
    end: int
    """The high watermark."""
    records: tuple[Found, ...] = ()

    def values(self, first: int = 0) -> list[bytes]:
        """Return the values of the committed records from offset `first` on."""
        return [record.value for record in self.records if record.offset >= first]


@dataclass(frozen=True)
class Topic:
    """A topic of one cluster."""

    id: str
    logs: dict[int, Log] = field(default_factory=dict)


def read_topic(cluster: KafkaCluster, name: str) -> Topic | None:
    """Read a topic and its records; ``None`` if it does not exist."""
    topic_id = topic_id_of(cluster, name)
    if topic_id is None:
        return None
    marks = cluster.watermarks(name)
    records: dict[int, list[Found]] = {number: [] for number in marks}
    if any(end > start for start, end in marks.values()):
        for message in cluster.read(name, marks=marks):
            records[message.partition() or 0].append(Found(message.offset() or 0, message.value() or b""))
    return Topic(topic_id, {number: Log(*marks[number], tuple(found)) for number, found in records.items()})


def topic_id_of(cluster: KafkaCluster, name: str) -> str | None:
    """Return the ID of a topic as Kafka's tools print it; ``None`` if there is no such topic."""
    future = cluster.admin().describe_topics(TopicCollection([name]))[name]
    try:
        return str(future.result().topic_id).replace("+", "-").replace("/", "_")
    except KafkaException:
        return None
