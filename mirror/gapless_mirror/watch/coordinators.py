"""Which brokers coordinate the transactions and the consumer group of a mirror. Pure.

If the partition of a coordinator has no leader, clients do not find the coordinator, and wait for it without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless_kafka.topics.coordinators import coordinator_partition
from gapless_mirror.watch.facts import CoordinatorSnapshot, TopicSnapshot

TRANSACTIONS, GROUPS = "__transaction_state", "__consumer_offsets"


def coordinators(
    topics: Mapping[str, TopicSnapshot], group: str, transactional_ids: Mapping[int, str]
) -> Iterator[CoordinatorSnapshot]:
    """Return the coordinators that a mirror needs; none if the cluster does not describe the internal topics.

    Args:
        topics: of the target, including internal topics.
        group: of the mirror; empty for none.
        transactional_ids: by lane.
    """
    topic = topics.get(GROUPS)
    if group and topic is not None and topic.partitions:
        number = coordinator_partition(group, len(topic.partitions))
        yield _coordinator(topic, f"the consumer group {group}", GROUPS, number, frozenset())
    topic = topics.get(TRANSACTIONS)
    if topic is None or not topic.partitions:
        return
    lanes_by_partition: dict[int, list[int]] = {}
    for lane, name in sorted(transactional_ids.items()):
        lanes_by_partition.setdefault(coordinator_partition(name, len(topic.partitions)), []).append(lane)
    for number, lanes in sorted(lanes_by_partition.items()):
        what = f"the transactions of lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}"
        yield _coordinator(topic, what, TRANSACTIONS, number, frozenset(lanes))


def _coordinator(topic: TopicSnapshot, what: str, name: str, number: int, lanes: frozenset[int]) -> CoordinatorSnapshot:
    partition = topic.partitions.get(number)
    replicas = () if partition is None else partition.replicas
    return CoordinatorSnapshot(
        what, f"{name}/{number}", None if partition is None else partition.leader, replicas, lanes
    )
