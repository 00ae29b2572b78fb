"""Owns how partitions are shared out among shards and processes, the same way in each of them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_sender.base.sharding import Shard
    from gapless_sender.source.plan import Wish


def wishes_of_shard(wishes: Sequence[Wish], shard: Shard) -> tuple[Wish, ...]:
    """The part of `wishes` that is `shard`'s; nothing when there are more shards than partitions."""
    if shard.count == 1:
        return tuple(wishes)
    shares = distribute(wishes, shard.count)
    return tuple(shares[shard.index]) if shard.index < len(shares) else ()


def distribute(wishes: Sequence[Wish], shards: int) -> list[list[Wish]]:
    """Spread partitions over `shards` so that each has about the same number of events; the same for the same input."""
    loads = [0] * shards
    shares: list[list[Wish]] = [[] for _ in range(shards)]
    # An open end may be anything; it counts as much as the largest that is known.
    known = max((wish.ranges.count for wish in wishes), default=0) or 1
    weighed = [(known if wish.open_from is not None or wish.by_time else wish.ranges.count, wish) for wish in wishes]
    for weight, wish in sorted(weighed, key=lambda pair: (-pair[0], pair[1].place.topic, pair[1].place.partition)):
        lightest = loads.index(min(loads))
        loads[lightest] += weight
        shares[lightest].append(wish)
    for share in shares:
        share.sort(key=lambda wish: (wish.place.topic, wish.place.partition))
    return [share for share in shares if share]
