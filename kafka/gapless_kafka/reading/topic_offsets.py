"""The current extent of topics: their IDs, log start offsets and last stable offsets, as a cut."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from gapless_kafka.access.admin import ELECTION_SECONDS, Admin, call_admin
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_kafka.topics.topic_ids import topic_id_in

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

_POLL_SECONDS = 0.1


class _Offsets(NamedTuple):
    """The offsets of a topic's partitions, and the leader epochs that Kafka returns with them."""

    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


UNKNOWN_OFFSET = -1
NONE: Mapping[str, Collection[int]] = MappingProxyType({})


def read_cut(
    connection: KafkaConnection,
    topics: Sequence[str],
    *,
    timeout_seconds: float,
    without: Mapping[str, Collection[int]] = NONE,
    election_seconds: float = ELECTION_SECONDS,
) -> Cut:
    """Read IDs and offsets of topics.

    Args:
        connection: to the cluster.
        topics: their names.
        timeout_seconds: of each request.
        without: partitions that are not asked for, by topic; their offsets are `UNKNOWN_OFFSET`.
        election_seconds: how long other leaders are waited for, once Kafka answers.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
        TopicMissingError: a topic does not exist.
    """
    return call_admin(
        connection,
        lambda admin: _cut(admin, topics, without),
        timeout_seconds=timeout_seconds,
        election_seconds=election_seconds,
    )


def read_settled_cut(
    connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float, patience_seconds: float = 10.0
) -> Cut:
    """Like `read_cut`, but after the transactions that are open now, if they end within `patience_seconds`.

    Kafka acknowledges a commit before it writes the transaction markers, so reading at once would miss records. Records
    that were written later are not counted as `TopicCut.uncommitted`.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
        TopicMissingError: a topic does not exist.
    """
    deadline = time.monotonic() + patience_seconds
    first = cut = read_cut(connection, topics, timeout_seconds=timeout_seconds)
    while any(topic.uncommitted for topic in cut.topics) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        cut = _since(first, read_cut(connection, topics, timeout_seconds=timeout_seconds))
    return cut


def _since(first: Cut, cut: Cut) -> Cut:
    """Return `cut`, with only those open transactions that were open at `first`."""
    return replace(
        cut,
        topics=tuple(
            replace(
                now,
                uncommitted=sum(
                    max(min(at_first, at_end) - end, 0)
                    for end, at_end, at_first in zip(
                        now.end_offsets, now.high_watermarks, before.high_watermarks, strict=False
                    )
                ),
            )
            for now, before in zip(cut.topics, first.topics, strict=True)
        ),
    )


def _cut(admin: Admin, topics: Sequence[str], without: Mapping[str, Collection[int]]) -> Cut:
    cluster_id = admin.metadata().cluster_id
    futures = admin.client.describe_topics(TopicCollection(list(topics)), request_timeout=admin.request_seconds)
    descriptions = {topic: admin.result(futures[topic], f"the topic {topic}") for topic in topics}
    partitions = {topic: len(descriptions[topic].partitions) for topic in topics}
    asked = [
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        for number in range(count)
        if number not in without.get(topic, ())
    ]
    first = _offsets(admin, partitions, asked, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
    end = _offsets(admin, partitions, asked, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    high = _offsets(admin, partitions, asked, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    return Cut(
        cluster_id or "",
        tuple(
            TopicCut(
                topic,
                first[topic].offsets,
                end[topic].offsets,
                sum(high[topic].offsets) - sum(end[topic].offsets),
                topic_id_in(futures[topic]) or "",
                high_watermarks=high[topic].offsets,
                leader_epochs=end[topic].leader_epochs,
            )
            for topic in topics
        ),
    )


def _offsets(
    admin: Admin,
    partitions: Mapping[str, int],
    asked: Sequence[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel,
) -> dict[str, _Offsets]:
    offsets = {topic: [UNKNOWN_OFFSET] * count for topic, count in partitions.items()}
    epochs = {topic: [-1] * count for topic, count in partitions.items()}
    if asked:
        futures = admin.client.list_offsets(
            dict.fromkeys(asked, spec), isolation_level=isolation, request_timeout=admin.request_seconds
        )
        for partition in asked:
            result = admin.offset(futures[partition], partition)
            offsets[partition.topic][partition.partition] = result.offset
            epochs[partition.topic][partition.partition] = -1 if result.leader_epoch is None else result.leader_epoch
    return {topic: _Offsets(tuple(offsets[topic]), tuple(epochs[topic])) for topic in partitions}
