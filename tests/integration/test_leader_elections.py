"""A request is answered by the new leader, also if it was sent to a broker that is dead, hangs, or has hung."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.writing.positions import content
from gapless_mirror.lanes.control import LaneState, read_lanes
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.mark import write_mark
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.records import POSITION, LanePosition, position_key
from gapless_mirror.lanes.setup import LaneSetup, OnTargetLoss
from gapless_mirror.lanes.sources import SourceTopic
from gapless_mirror.lanes.target_loss import TargetLosses
from kit.kafka.cluster import KafkaCluster
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import HANGING_SECONDS, wait_until

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut

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


def test_a_lane_takes_the_answers_of_a_former_leader_for_no_state_and_no_loss() -> None:
    """It answers as if nothing had been written since, as long as it does not hear of the election."""
    with KafkaCluster(3, config={"broker.session.timeout.ms": "6000"}) as cluster, ThreadPoolExecutor(2) as pool:
        topic, lanes = cluster.create_topic("control", 2, led_by=0), (0, 1)
        copies = cluster.create_topic("copies", 1, led_by=0)
        connection = KafkaConnection(bootstrap_servers=cluster.bootstrap)
        losses = TargetLosses(_setup(connection))
        cluster.write(topic, [_record(lane, next_offset=1) for lane in lanes])
        cluster.write(copies, [{"value": b"1", "partition": 0}])
        left_open = in_transaction(cluster, topic, [(b"open", b"")])
        with contextlib.ExitStack() as others:
            with cluster.hanging(0):
                write_mark(connection, topic, 0)  # It waits for the election.
                cluster.write(topic, [_record(lane, next_offset=2) for lane in lanes], linger_ms=0)
                marks = {lane: write_mark(connection, topic, lane) for lane in lanes}
                write_mark(connection, copies, 0)
                written = _copies(connection, copies)
                for other in (1, 2):
                    others.enter_context(cluster.hanging(other))
            old, seen = read_lanes(connection, topic, lanes), _copies(connection, copies)
            assert [_next_offset(old[lane]) for lane in lanes] == [1, 1], "the test has no former leader"
            assert (seen.end_offsets, written.end_offsets) == ((1,), (2,)), "the test has no former leader"
            found = [pool.submit(read_lanes, connection, topic, [lane], behind=marks) for lane in lanes]
            assert not wait(found, timeout=5.0).done
            partition = _copied_to(written)
            assert not losses.follow(partition, _source_of(seen), None)
            assert (partition.stop, partition.next_offset) == (None, 2)
        states = {lane: state for each in found for lane, state in each.result(HANGING_SECONDS).items()}
        # What stands behind an open transaction is not committed yet.
        assert [_next_offset(states[lane]) for lane in lanes] == [1, 2]
        assert [states[lane].open_from for lane in lanes] == [1, None]
        wait_until(lambda: losses.follow(partition, _source_of(_copies(connection, copies)), None), what="the leader")
        assert (partition.stop, partition.next_offset) == (None, 2)
        end_transaction(left_open, commit=False)


def _setup(target: KafkaConnection) -> LaneSetup:
    return LaneSetup(
        identity=MirrorIdentity("m"),
        lanes=1,
        source=target,
        target=target,
        engine="workers",
        epoch=1,
        commit_interval_seconds=0.5,
        on_target_loss=OnTargetLoss.COPY_AGAIN,
    )


def _record(lane: int, *, next_offset: int) -> dict[str, Any]:
    position = LanePosition(target="events", source_id="", epoch=0, start=0, next_offset=next_offset)
    return {"key": position_key("events", lane), "value": content(POSITION, position), "partition": lane}


def _next_offset(state: LaneState) -> int:
    (position,) = state.positions.values()
    return position.next_offset


def _copies(connection: KafkaConnection, topic: str) -> TopicCut:
    (cut,) = read_cut(connection, [topic], timeout_seconds=_TIMEOUT_SECONDS).topics
    return cut


def _copied_to(copies: TopicCut) -> PartitionProgress:
    """The progress of a partition whose copies are all that a topic has."""
    (end,), (epoch,) = copies.end_offsets, copies.leader_epochs
    position = LanePosition(
        target=copies.topic,
        source_id="S",
        epoch=1,
        start=0,
        next_offset=end,
        records=end,
        target_id=copies.id,
        target_end=end,
        target_epoch=epoch,
        target_epoch_end=end,
    )
    return PartitionProgress(("events", 0), position, end, 0.0)


def _source_of(copies: TopicCut) -> SourceTopic:
    return SourceTopic("events", "S", copies.topic, (0,), (9,), (9,), copy=copies)
