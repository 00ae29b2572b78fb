"""What is requested of partitions, and how they are distributed over shards, the same way in each one; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.base.sharding import Shard


@dataclass(frozen=True, slots=True)
class MappedPartition:
    """A partition under its downstream and its upstream name."""

    topic: str
    """As event ids and bundles name it."""
    partition: int
    """As event ids and bundles number it."""
    upstream_topic: str
    upstream_partition: int

    @property
    def key(self) -> TopicPartition:
        """Topic and partition downstream."""
        return self.topic, self.partition

    @property
    def upstream(self) -> TopicPartition:
        """Topic and partition in Kafka."""
        return self.upstream_topic, self.upstream_partition

    def __str__(self) -> str:
        shown = f"{self.topic}/{self.partition}"
        return (
            shown
            if self.key == self.upstream
            else f"{shown} (upstream {self.upstream_topic}/{self.upstream_partition})"
        )


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """What is requested of one partition, before Kafka is queried."""

    partition: MappedPartition
    ranges: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets requested by number: one that does not exist is unavailable."""
    open_from: int | None = None
    """Everything from this offset to the partition's end is requested too; behind the end, this offset is."""
    by_time: bool = False
    """Everything from the selection's first timestamp to the partition's end is requested, and then checked."""


def requests_of_shard(requests: Sequence[PartitionRequest], shard: Shard) -> tuple[PartitionRequest, ...]:
    """Return the share of `requests` that `shard` has; empty when there are more shards than partitions."""
    if shard.count == 1:
        return tuple(requests)
    shares = distribute(requests, shard.count)
    return tuple(shares[shard.index]) if shard.index < len(shares) else ()


def distribute(requests: Sequence[PartitionRequest], shards: int) -> list[list[PartitionRequest]]:
    """Distribute partitions over `shards`, about the same number of events to each; deterministic."""
    loads = [0] * shards
    shares: list[list[PartitionRequest]] = [[] for _ in range(shards)]
    # The size of an open range is unknown; it counts as much as the largest known one.
    largest = max((request.ranges.count for request in requests), default=0) or 1
    weighed = [
        (largest if request.open_from is not None or request.by_time else request.ranges.count, request)
        for request in requests
    ]
    for weight, request in sorted(weighed, key=lambda pair: (-pair[0], pair[1].partition.key)):
        lightest = loads.index(min(loads))
        loads[lightest] += weight
        shares[lightest].append(request)
    for share in shares:
        share.sort(key=lambda request: request.partition.key)
    return [share for share in shares if share]
