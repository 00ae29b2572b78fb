"""Owns which brokers coordinate the transactions and the group of a mirror, as far as a look at the target tells. Pure.

A coordinating partition without a leader is a coordinator that no client finds, and clients wait for it without an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.mirror.watch.facts import CoordinatorLook
from gapless_kafka.topics.coordinators import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_kafka.mirror.watch.facts import TopicLook

TRANSACTIONS, GROUPS = "__transaction_state", "__consumer_offsets"


def coordinators(
    topics: Mapping[str, TopicLook], group: str, transactional_ids: Mapping[int, str]
) -> Iterator[CoordinatorLook]:
    """What is known of the coordinators that a mirror needs; nothing where a cluster does not describe these topics.

    Args:
        topics: of the target, the internal ones among them.
        group: of the mirror; empty for none.
        transactional_ids: by lane.
    """
    found = topics.get(GROUPS)
    if group and found is not None and found.partitions:
        number = coordinator_partition(group, len(found.partitions))
        yield _look(found, f"the consumer group {group}", GROUPS, number, frozenset())
    found = topics.get(TRANSACTIONS)
    if found is None or not found.partitions:
        return
    lanes: dict[int, list[int]] = {}
    for lane, name in sorted(transactional_ids.items()):
        lanes.setdefault(coordinator_partition(name, len(found.partitions)), []).append(lane)
    for number, some in sorted(lanes.items()):
        what = f"the transactions of lane{'s' if len(some) > 1 else ''} {', '.join(map(str, some))}"
        yield _look(found, what, TRANSACTIONS, number, frozenset(some))


def _look(topic: TopicLook, what: str, name: str, number: int, lanes: frozenset[int]) -> CoordinatorLook:
    partition = topic.partitions.get(number)
    replicas = () if partition is None else partition.replicas
    return CoordinatorLook(what, f"{name}/{number}", None if partition is None else partition.leader, replicas, lanes)
