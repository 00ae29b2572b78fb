"""The leader epochs of logs and where they begin, as their leaders know them (KIP-101).

Must not know what they are compared with. Kafka answers for one epoch at a time, so each round asks all partitions for
the epoch before the one that was found last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gapless_api.inventory.epochs import MAX_EPOCHS, EpochStart
from gapless_kafka.reading.log_truncation import LogPosition, find_epoch_ends
from gapless_kafka.reading.topic_offsets import read_cut

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection


def read_epoch_starts(
    connection: KafkaConnection, bounds: Mapping[TopicPartition, tuple[int, int]], *, timeout_seconds: float
) -> dict[TopicPartition, tuple[EpochStart, ...]]:
    """Return the epochs of partitions in ascending order, without partitions whose leaders do not return them.

    Args:
        connection: to the cluster.
        bounds: the first offset of each partition, and its end.
        timeout_seconds: of each request for offsets.

    Raises:
        GaplessError: Kafka does not respond, or denies access.
    """
    topics = sorted({topic for topic, _ in bounds})
    cut = read_cut(connection, topics, timeout_seconds=timeout_seconds) if topics else None
    now = {topic.topic: topic for topic in cut.topics} if cut is not None else {}
    found: dict[TopicPartition, list[EpochStart]] = {}
    current: dict[TopicPartition, int] = {}
    positions: dict[TopicPartition, int] = {}
    for (name, partition), (_, end) in bounds.items():
        topic = now[name]
        epoch = topic.leader_epochs[partition] if partition < len(topic.leader_epochs) else -1
        if epoch >= 0:
            found[name, partition], current[name, partition] = [], epoch
            positions[name, partition] = max(end, topic.high_watermarks[partition]) + 1
    while current:
        errors: dict[TopicPartition, str] = {}
        asked = [LogPosition(*key, positions[key], epoch - 1) for key, epoch in current.items() if epoch > 0]
        ends = find_epoch_ends(connection, asked, errors)
        following: dict[TopicPartition, int] = {}
        for key, epoch in current.items():
            first, end = bounds[key]
            if epoch and key not in ends:
                del found[key]
                continue
            start = min(max(ends[key].end, first), end) if epoch else first
            if found[key] and start == found[key][0].first_offset:
                continue  # no such epoch: Kafka returns the requested one where it knows none
            found[key].insert(0, EpochStart(epoch, start))
            if start > first and 0 <= ends[key].epoch < epoch and len(found[key]) < MAX_EPOCHS:
                following[key] = ends[key].epoch
        current = following
    return {key: tuple(epochs) for key, epochs in found.items()}
