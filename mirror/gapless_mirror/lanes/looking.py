"""A look at some records of many partitions at once, before a lane opens: until each has answered, or in vain.

Must not know what is looked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException

from gapless_mirror.lanes.reader import Batch, LaneReader

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS = 0.2
_MAX_RECORDS = 5000


class Looked(NamedTuple):
    """Which partitions have not answered."""

    unread: set[TopicPartition]
    """Kafka did not return their records in time."""
    damaged: set[TopicPartition]
    """They have a batch that cannot be read, before anything was found out."""


def look_at_records(
    connection: KafkaConnection,
    offsets: Mapping[TopicPartition, int],
    is_enough: Callable[[Batch], bool],
    pulse: Callable[[], None],
    *,
    queue_kib: int = 1024,
) -> Looked:
    """Read partitions from the given offsets, each until a batch is enough, or to its end.

    Args:
        connection: to their cluster.
        offsets: of the first record of each partition.
        is_enough: called with each batch; returns whether its partition needs no further one.
        pulse: called while waiting for Kafka.
        queue_kib: how many KiB of records to prefetch.

    Raises:
        KafkaException: the cluster rejects a request.
    """
    damaged: set[TopicPartition] = set()
    pending = set(offsets)
    if not pending:
        return Looked(pending, damaged)
    reader = LaneReader(connection, queue_kib=queue_kib)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        reader.add(offsets)
        while pending and time.monotonic() < deadline:
            pulse()
            reading = reader.read(_MAX_RECORDS, _WAIT_SECONDS)
            for _, error in reading.errors:
                raise KafkaException(error)
            done = {batch.topic_partition for batch in reading.batches if is_enough(batch)} | reading.ends.keys()
            damaged |= (reading.damaged.keys() - done) & pending
            pending -= done | reading.damaged.keys()
            reader.drop(done)
    finally:
        reader.close()
    return Looked(pending, damaged)
