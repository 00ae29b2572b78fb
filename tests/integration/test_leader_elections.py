"""A request for offsets is answered by the new leader, also if it was sent to a broker that is dead or hangs."""

from __future__ import annotations

import contextlib

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.target_topics import TargetTopics
from kit.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.integration

_TIMEOUT_SECONDS = 4.0
"""Less than the controller takes to find a broker dead, and more than an answer takes."""


@pytest.mark.parametrize("fault", ["dead", "hanging"])
def test_offsets_are_those_of_the_new_leader(fault: str) -> None:
    with KafkaCluster(3, config={"broker.session.timeout.ms": "6000"}) as cluster, contextlib.ExitStack() as stack:
        cluster.create_topic("events", 3)
        cluster.write("events", [{"value": b"1", "partition": partition} for partition in range(3)])
        connection = KafkaConnection(bootstrap_servers=cluster.bootstrap)
        leader = cluster.admin().list_topics("events").topics["events"].partitions[0].leader
        index = next(index for index, node in enumerate(cluster.nodes) if node.node_id == leader)
        if fault == "dead":
            cluster.kill(index)
        else:
            stack.enter_context(cluster.hanging(index))
        (cut,) = read_cut(connection, ["events"], timeout_seconds=_TIMEOUT_SECONDS).topics
        assert (cut.first_offsets, cut.end_offsets) == ((0, 0, 0), (1, 1, 1))
        topics = TargetTopics(connection, timeout_seconds=_TIMEOUT_SECONDS)
        assert topics.end_offset("events", 0, committed=True) == 1
        assert topics.defaults()["default.replication.factor"] == "3"
