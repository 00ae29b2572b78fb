"""Owns how partitions are distributed over shards and processes, the same way in each of them; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_sender.base.sharding import Shard
    from gapless_sender.source.plan import PartitionRequest


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
