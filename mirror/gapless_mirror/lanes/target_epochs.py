"""In which leader epochs the target has the records of a transaction, as far as its leaders say.

Kafka's client does not report the epoch of a record that it wrote. So the leaders are asked after they have accepted
the records, and before the positions are written that name the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from gapless_kafka.access.answers import listed
from gapless_mirror.lanes.divergence import EpochClaim

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

_TIMEOUT_SECONDS = 2.0
"""Without an answer, the position keeps the epoch that it has, and the next refresh finds out."""


def read_epochs(
    client: AdminClient, partitions: Iterable[TopicPartition], pulse: Callable[[], None]
) -> dict[TopicPartition, EpochClaim]:
    """Return the leader epochs of target partitions, and the ends of their logs, as far as their leaders answer.

    Args:
        client: of the target.
        partitions: of the target.
        pulse: called while waiting.
    """
    requests = {KafkaPartition(*each): OffsetSpec.latest() for each in partitions}
    if not requests:
        return {}
    futures = client.list_offsets(
        requests, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT_SECONDS
    )
    deadline = time.monotonic() + _TIMEOUT_SECONDS + 1
    while not all(future.done() for future in futures.values()) and time.monotonic() < deadline:
        pulse()
        time.sleep(0.001)
    epochs = {}
    for partition, future in futures.items():
        try:
            found = listed(future.result(timeout=0.1))
        except (KafkaException, TimeoutError):
            continue
        if found.leader_epoch is not None and found.leader_epoch >= 0:
            epochs[partition.topic, partition.partition] = EpochClaim(found.leader_epoch, found.offset)
    return epochs
