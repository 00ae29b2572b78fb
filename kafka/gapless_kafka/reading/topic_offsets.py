"""Owns how far topics reach at this moment: their IDs, their log starts and their last stable offsets, as a cut."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from gapless_kafka.access.admin import ask
from gapless_kafka.reading.cuts import Cut, TopicCut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_kafka.access.admin import Admin
    from gapless_kafka.access.connection import KafkaConnection

_PAUSE_SECONDS = 0.1


def read_cut(connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float) -> Cut:
    """Find the topics and how far they reach.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
        TopicMissingError: a topic does not exist.
    """
    return ask(connection, lambda admin: _cut(admin, topics), timeout_seconds=timeout_seconds)


def read_settled_cut(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float, patience_seconds: float = 10.0
) -> Cut:
    """Like `read_cut`, but behind the transactions that are open now, if they end within `patience_seconds`.

    Kafka confirms a commit before it has written the markers by which readers see the records, so who reads at once
    would miss some.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
        TopicMissingError: a topic does not exist.
    """
    deadline = time.monotonic() + patience_seconds
    first = cut = read_cut(connection, topics, timeout_seconds=timeout_seconds)
    while _is_behind(cut, first) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        cut = read_cut(connection, topics, timeout_seconds=timeout_seconds)
    return cut


def _is_behind(cut: Cut, first: Cut) -> bool:
    """Whether a transaction that was open at the first look is still open."""
    return any(
        end < high
        for now, before in zip(cut.topics, first.topics, strict=True)
        for end, high in zip(now.end_offsets, before.high_watermarks, strict=False)
    )


def _cut(admin: Admin, topics: Sequence[str]) -> Cut:
    cluster = admin.client.describe_cluster(request_timeout=admin.timeout_seconds)
    asked = admin.client.describe_topics(TopicCollection(list(topics)), request_timeout=admin.timeout_seconds)
    described = {topic: admin.answer(asked[topic], f"the topic {topic}") for topic in topics}
    partitions = {topic: len(described[topic].partitions) for topic in topics}
    first = _offsets(admin, partitions, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
    end = _offsets(admin, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    high = _offsets(admin, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    return Cut(
        admin.answer(cluster, "the cluster").cluster_id or "",
        tuple(
            TopicCut(
                topic,
                first[topic],
                end[topic],
                sum(high[topic]) - sum(end[topic]),
                _id(described[topic].topic_id),
                high_watermarks=high[topic],
            )
            for topic in topics
        ),
    )


def _offsets(
    admin: Admin, partitions: Mapping[str, int], spec: OffsetSpec, isolation: IsolationLevel
) -> dict[str, tuple[int, ...]]:
    everywhere = [TopicPartition(topic, number) for topic in partitions for number in range(partitions[topic])]
    asked = admin.client.list_offsets(
        dict.fromkeys(everywhere, spec), isolation_level=isolation, request_timeout=admin.timeout_seconds
    )
    found: dict[str, list[int]] = {topic: [] for topic in partitions}
    for place in everywhere:
        found[place.topic].append(admin.answer(asked[place], f"the topic {place.topic}").offset)
    return {topic: tuple(offsets) for topic, offsets in found.items()}


def _id(uuid: Any) -> str:
    """Kafka's way to write a topic's id; old brokers have none, which is all zeros."""
    return str(uuid) if uuid.get_most_significant_bits() or uuid.get_least_significant_bits() else ""
