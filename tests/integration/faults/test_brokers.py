"""The proof that brokers may die, lose their leadership, go away for a while or be slow, and nothing is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ElectionType, TopicPartition

from kit.kafka.cluster import KafkaCluster
from kit.kafka.quotas import limit_reading
from kit.machine.processes import wait_until
from kit.story.resending import Ended, Resend, events_of, every_id, ids_of

if TYPE_CHECKING:
    from conftest import Filled
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

EVENTS = 20_000
"""40 MB in all: more than the sender reads ahead."""


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as brokers:
        yield brokers


@pytest.fixture
def cluster(three_brokers: KafkaCluster) -> KafkaCluster:
    """All three brokers, restarted if the previous test stopped them."""
    return three_brokers.start()


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    """The index of the broker that leads partition 0, -1 for none."""
    number = cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    return next((index for index, node in enumerate(cluster.nodes) if node.node_id == number), -1)


def is_in_sync(cluster: KafkaCluster, topic: str) -> bool:
    partitions = cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions
    return all(len(partition.isrs) == len(cluster.nodes) for partition in partitions.values())


def wanted(topic: str) -> dict[str, object]:
    return {"topic": topic, "partition": 0, "offsetFrom": 0, "offsetTo": EVENTS - 1}


def events_stop(listener: Listener, quiet_seconds: float = 3.0) -> None:
    """Wait until the sender has used up what it had read ahead: status datagrams go on, events do not."""
    count, since = -1, time.monotonic()

    def are_stopped() -> bool:
        nonlocal count, since
        if (now := len(events_of(listener.datagrams))) != count:
            count, since = now, time.monotonic()
        return time.monotonic() - since > quiet_seconds

    wait_until(are_stopped, what="the last event that was read ahead")
    assert 0 < count < EVENTS


def everything_came_once(ended: Ended, listener: Listener, expected: set[str]) -> None:
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["planned"] == ended.ledger["sent"] == EVENTS
    came = Counter(ids_of(listener.settled()))
    assert set(came) == expected
    assert set(came.values()) == {1}


def test_the_leader_is_killed_and_another_one_goes_on(
    cluster: KafkaCluster, filled: Filled, far: Resend, listener: Listener
) -> None:
    topic = filled(EVENTS)
    process = far.start(**wanted(topic), eps=5000)
    listener.wait_for(1000)
    killed = leader_of(cluster, topic)
    cluster.kill(killed)
    ended = far.ended(process, timeout_seconds=200)
    assert leader_of(cluster, topic) != killed
    everything_came_once(ended, listener, every_id(topic, range(EVENTS)))


def test_the_leadership_moves_while_we_read(
    cluster: KafkaCluster, filled: Filled, far: Resend, listener: Listener
) -> None:
    topic = filled(EVENTS)
    preferred = leader_of(cluster, topic)
    cluster.kill(preferred)
    wait_until(lambda: leader_of(cluster, topic) not in {preferred, -1}, what="the choice of a new leader")
    cluster.start()
    wait_until(lambda: is_in_sync(cluster, topic), what="the return of the old leader")
    process = far.start(**wanted(topic), eps=5000)
    listener.wait_for(1000)
    moved = cluster.admin().elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result()
    assert next(iter(moved.values())) is None or leader_of(cluster, topic) == preferred
    ended = far.ended(process, timeout_seconds=200)
    assert leader_of(cluster, topic) == preferred
    everything_came_once(ended, listener, every_id(topic, range(EVENTS)))


def test_all_brokers_are_away_and_are_waited_for(
    cluster: KafkaCluster, filled: Filled, far: Resend, listener: Listener
) -> None:
    topic = filled(EVENTS)
    process = far.start(**wanted(topic), eps=5000, stallTimeout=200)
    listener.wait_for(1000)
    cluster.kill()
    events_stop(listener)
    assert process.poll() is None
    cluster.start()
    everything_came_once(far.ended(process, timeout_seconds=250), listener, every_id(topic, range(EVENTS)))


def test_a_broker_that_gives_few_bytes_a_second_is_slow_and_no_stall(
    cluster: KafkaCluster, filled: Filled, far: Resend, listener: Listener
) -> None:
    topic = filled(3000)
    limit_reading(cluster.bootstrap, "gapless-resend", 500_000)
    try:
        # Each answer of a broker is up to 2 MiB and is followed by the silence that makes up for it.
        ended = far.run(topic=topic, partition=0, offsetFrom=0, offsetTo=2999, stallTimeout=30, timeout_seconds=200)
    finally:
        limit_reading(cluster.bootstrap, "gapless-resend", None)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 3000
    assert ended.report is not None
    assert ended.report["seconds"] > 4, "the brokers did hold the reader back"
    assert len(set(ids_of(listener.settled()))) == 3000
