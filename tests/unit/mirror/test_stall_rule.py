"""Each fact that keeps a mirror from making progress has one name, and what is no stall has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from gapless_api.wire.mirror_progress import StallReason
from gapless_mirror.lanes.observations import LanePhase, SeenError, Stop
from gapless_mirror.lanes.sources import TopicProblem
from gapless_mirror.watch.coordinators import coordinators
from gapless_mirror.watch.facts import (
    ClusterSnapshot,
    CoordinatorSnapshot,
    KafkaFault,
    MirrorFacts,
    PartitionEnds,
    PartitionSnapshot,
    TopicSnapshot,
)
from gapless_mirror.watch.fault_reasons import reason_of
from gapless_mirror.watch.stall import Cause, causes, is_idle
from unit.mirror.observed import NOW, facts, lane, partition, source, target

R = StallReason


def only(found: MirrorFacts) -> Cause:
    (cause,) = causes(found)
    return cause


BEHIND = source(PartitionEnds(0, 150, 150))
OPEN = source(PartitionEnds(0, 100, 130))
COORDINATOR = CoordinatorSnapshot("the transactions of lane 3", "__transaction_state/2", None, (9,), frozenset({3}))
ERROR = SeenError(message="It failed.", name="TOPIC_AUTHORIZATION_FAILED", seen_at=NOW)


def error(name: str, seen_at: float = NOW) -> SeenError:
    return SeenError(message="It failed.", name=name, seen_at=seen_at)


@pytest.mark.parametrize(
    ("found", "reason", "is_certain", "words"),
    [
        (facts(of_source=source(id="id-9")), R.TOPIC_RECREATED, True, "(topic ID id-1 -> id-9)"),
        (
            facts(of_source=source(error="UNKNOWN_TOPIC_OR_PART")),
            R.TOPIC_RECREATED,
            False,
            "The source topic orders was deleted",
        ),
        (
            facts(of_source=source(operations=frozenset({"DESCRIBE"}))),
            R.AUTHORIZATION_FAILED,
            True,
            "source denies Read on the topic orders",
        ),
        (
            facts(of_target=target(operations=frozenset({"READ"}))),
            R.AUTHORIZATION_FAILED,
            True,
            "target denies Write on the topic copy",
        ),
        (
            facts(of_source=source(error="TOPIC_AUTHORIZATION_FAILED")),
            R.AUTHORIZATION_FAILED,
            True,
            "source denies Describe on the topic orders",
        ),
        (
            facts(of_target=target(error="TOPIC_AUTHORIZATION_FAILED")),
            R.AUTHORIZATION_FAILED,
            True,
            "target denies Describe on the topic copy",
        ),
        (facts(of_source=source(leader=None)), R.LEADER_MISSING, False, "source topic orders has no leader"),
        (facts(of_source=source(leader=8)), R.LEADER_MISSING, False, "replicas on 1, 2; registered brokers 1, 2"),
        (facts(of_source=source(leader=None)), R.LEADER_MISSING, False, "); a disk of these brokers is full or broken"),
        (facts(of_target=target(leader=None)), R.LEADER_MISSING, False, "target topic copy has no leader"),
        (
            facts(of_target=target(leader=None)),
            R.LEADER_MISSING,
            False,
            "(replicas on 7; registered brokers 1, 2); start",
        ),
        (
            facts(of_source=source(PartitionEnds(140, 200, 200))),
            R.RETENTION_OVERTOOK,
            True,
            "offsets 100 to 139 of orders/0",
        ),
        (facts(of_target=target(error="UNKNOWN_TOPIC_OR_PART")), R.TARGET_REFUSES, False, "no topic copy"),
        (
            facts(lane(partition(has_copies=True)), of_target=target(error="UNKNOWN_TOPIC_OR_PART")),
            R.TARGET_DELETED,
            False,
            "was deleted: orders/0 was copied to copy up to source offset 100, and these copies are gone.",
        ),
        (
            facts(lane(partition(stop=Stop(reason="TargetRefuses", message="Too large.")))),
            R.TARGET_REFUSES,
            True,
            "Too large.",
        ),
        (
            facts(lane(partition(stop=Stop(reason="CopyFailed", message="Unexpected.")))),
            R.COPY_FAILED,
            True,
            "Unexpected.",
        ),
        (
            facts(lane(partition(stop=Stop(reason="SourceDamaged", message="Damaged.")))),
            R.SOURCE_DAMAGED,
            True,
            "Damaged.",
        ),
        (
            facts(lane(partition(stop=Stop(reason="RetentionOvertook", message="Gone.")))),
            R.RETENTION_OVERTOOK,
            True,
            "Gone.",
        ),
        (facts(of_source=OPEN), R.TRANSACTION_OPEN, False, "since offset 100; 30 offsets cannot be read"),
        (facts(of_source=BEHIND), R.WORKER_STUCK, False, "50 offsets of orders/0 are not copied"),
        (
            facts(lane(partition(error=error("LEADER_NOT_AVAILABLE")))),
            R.LEADER_MISSING,
            False,
            "orders/0 cannot be read: It failed.",
        ),
        (
            facts(
                lane(partition(error=error("LEADER_NOT_AVAILABLE", NOW - 500), progressed_at=NOW - 501)),
                of_source=BEHIND,
            ),
            R.LEADER_MISSING,
            False,
            "orders/0 cannot be read: It failed.",
        ),
        (
            facts(lane(partition(error=ERROR)), of_source=source(operations=None)),
            R.AUTHORIZATION_FAILED,
            True,
            "cannot be read",
        ),
        (
            facts(of_target=replace(target(), coordinators=(COORDINATOR,))),
            R.COORDINATOR_UNAVAILABLE,
            False,
            "no coordinator for the transactions of lane 3: __transaction_state/2 has no leader (replicas on 9; ",
        ),
        (
            facts(of_target=replace(target(), coordinators=(replace(COORDINATOR, leader=9),))),
            R.COORDINATOR_UNAVAILABLE,
            False,
            "registered brokers 1, 2",
        ),
        (facts(lane(phase=LanePhase.OPENING)), R.COORDINATOR_UNAVAILABLE, False, "transactions of lane 3"),
        (
            facts(lane(phase=LanePhase.RETRYING, error=error("COORDINATOR_NOT_AVAILABLE"))),
            R.COORDINATOR_UNAVAILABLE,
            False,
            "Lane 3 keeps failing: It failed.",
        ),
        (
            facts(lane(phase=LanePhase.RETRYING, error=error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"))),
            R.AUTHORIZATION_FAILED,
            True,
            "It failed.",
        ),
        (
            facts(lane(phase=LanePhase.OPENING, error=error("NOT_ENOUGH_REPLICAS"))),
            R.TARGET_REFUSES,
            False,
            "It failed.",
        ),
        (facts(lane(transaction_since=NOW - 21)), R.TARGET_REFUSES, True, "not finished a transaction of lane 3"),
        (facts(lane(error=error("CopyFailed"))), R.COPY_FAILED, True, "It failed."),
        (
            facts(lane(stop=Stop(reason="CopyFailed", message="It stopped."), tick_at=NOW - 21)),
            R.COPY_FAILED,
            True,
            "It stopped.",
        ),
        (facts(lane(tick_at=NOW - 21)), R.WORKER_STUCK, False, "The thread of lane 3 hangs"),
        (
            facts(problems=(TopicProblem("bills", "TargetRefuses", "It has too few partitions."),)),
            R.TARGET_REFUSES,
            True,
            "too few partitions",
        ),
        (
            facts(lane(lane=0), heartbeat_ages={0: 1.0, 1: 3.0, 2: 21.0}),
            R.WORKER_STUCK,
            False,
            "No heartbeat has come through lane 2",
        ),
        (facts(stuck_workers={1: 22.4}), R.WORKER_STUCK, True, "Worker 1 has not responded for 22 s; it is"),
        (
            facts(of_source=ClusterSnapshot(side="source", fault=KafkaFault("source", "_TRANSPORT", "refused"))),
            R.LEADER_MISSING,
            False,
            "The source does not answer (refused)",
        ),
        (
            facts(of_target=ClusterSnapshot(side="target", fault=KafkaFault("target", "_TIMED_OUT", "no answer"))),
            R.LEADER_MISSING,
            False,
            "The target does not answer (no answer)",
        ),
        (
            facts(
                of_source=ClusterSnapshot(side="source", fault=KafkaFault("source", "_AUTHENTICATION", "bad password"))
            ),
            R.AUTHORIZATION_FAILED,
            True,
            "The source refuses the mirror (bad password)",
        ),
    ],
)
def test_every_standstill_has_one_name(found: MirrorFacts, reason: StallReason, is_certain: bool, words: str) -> None:  # noqa: FBT001
    cause = only(found)
    assert (cause.reason, cause.is_certain) == (reason, is_certain)
    assert words in cause.sentence
    assert cause.sentence.endswith((".", '"'))


NO_STALL = {
    "all is copied": facts(),
    "a marker stands at the end, and the reader has come to it": facts(
        lane(partition(position=98, end_seen=100)), of_source=source(PartitionEnds(0, 100, 100))
    ),
    "the log start has passed a position of which the reader was at the end": facts(
        lane(partition(position=100, end_seen=100)), of_source=source(PartitionEnds(100, 100, 100))
    ),
    "brokers have no topic IDs": facts(lane(partition(source_id="")), of_source=source(id="")),
    "topic IDs are spelt like Kafka's client does": facts(
        lane(partition(source_id="a+/b")), of_source=source(id="a-_b")
    ),
    "rights are not known": facts(of_source=source(operations=None), of_target=target(operations=None)),
    "an error of reading has passed": facts(lane(partition(error=error("LEADER_NOT_AVAILABLE", NOW - 2)))),
    "an error of reading is old, and nothing waits": facts(
        lane(partition(error=error("LEADER_NOT_AVAILABLE", NOW - 61), progressed_at=NOW - 100))
    ),
    "a right was given back, and Kafka's client did not report it": facts(lane(partition(error=ERROR))),
    "the reader lost a connection that nobody used": facts(lane(error=error("_TRANSPORT"))),
    "the end of a partition is not known": facts(of_source=source(ends=None)),
    "an own transaction is open for a moment": facts(lane(transaction_since=NOW - 5)),
    "no lane is ours": facts(lane(lane=1), heartbeat_ages={1: 1.0, 2: 100.0}),
    "the coordinator of a lane of others is missing": facts(
        of_target=replace(target(), coordinators=(replace(COORDINATOR, lanes=frozenset({4})),))
    ),
}


@pytest.mark.parametrize("found", NO_STALL.values(), ids=NO_STALL)
def test_what_is_normal_has_no_name(found: MirrorFacts) -> None:
    assert list(causes(found)) == []


@pytest.mark.parametrize(
    ("found", "idle"),
    [
        (facts(), True),
        (facts(lane(partition(position=90, end_seen=100))), True),
        (facts(lane(partition(position=90, end_seen=100), transaction_since=NOW)), False),
        (facts(lane(partition(position=90, end_seen=None))), False),
        (facts(of_source=BEHIND), False),
        (facts(of_source=OPEN), False),
        (facts(of_source=source(ends=None)), False),
        (facts(of_source=replace(source(), fault=KafkaFault("source", "_TRANSPORT", ""))), False),
    ],
)
def test_idle_is_only_what_has_copied_all_there_is(found: MirrorFacts, idle: bool) -> None:  # noqa: FBT001
    assert is_idle(found) is idle


PRECEDENCE = [
    (R.AUTHORIZATION_FAILED, {"operations": frozenset({"DESCRIBE"})}, {}),
    (R.RETENTION_OVERTOOK, {}, {"stop": Stop(reason="RetentionOvertook", message="Gone.")}),
    (R.TOPIC_RECREATED, {"id": "id-9"}, {}),
    (R.LEADER_MISSING, {"leader": None}, {}),
    (R.TRANSACTION_OPEN, {"ends": PartitionEnds(0, 100, 130)}, {}),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE) - 1))
def test_of_several_reasons_the_first_one_counts(first: int) -> None:
    looks: dict[str, Any] = {}
    copies: dict[str, Any] = {}
    for _, look, copy in reversed(PRECEDENCE[first:]):
        looks |= look
        copies |= copy
    assert only(facts(lane(partition(**copies)), of_source=source(**looks))).reason is PRECEDENCE[first][0]


def test_what_explains_a_lane_is_not_repeated_for_its_partitions() -> None:
    dead = replace(target(), coordinators=(COORDINATOR,))
    assert [cause.partition for cause in causes(facts(of_source=BEHIND, of_target=dead))] == [None]
    gone = replace(BEHIND, fault=KafkaFault("source", "_TRANSPORT", "refused"))
    assert [cause.topic for cause in causes(facts(of_source=gone))] == [""]


def test_what_a_lane_does_not_explain_is_told_beside_it() -> None:
    dead = replace(target(), coordinators=(COORDINATOR,))
    found = [cause.reason for cause in causes(facts(of_source=source(id="id-9"), of_target=dead))]
    assert found == [R.COORDINATOR_UNAVAILABLE, R.TOPIC_RECREATED]


def test_a_group_without_a_coordinator_is_told_also_when_no_lane_is_ours() -> None:
    dead = replace(target(), coordinators=(replace(COORDINATOR, what="the consumer group g", lanes=frozenset()),))
    found = MirrorFacts(now=NOW, source=source(), target=dead, lanes=())
    cause = only(found)
    assert (cause.reason, cause.lane) == (R.COORDINATOR_UNAVAILABLE, None)
    assert "the consumer group g" in cause.sentence


def test_a_standstill_somewhere_else_is_another_one() -> None:
    here = only(facts(of_source=OPEN))
    there = only(facts(lane(partition(position=110, end_seen=110)), of_source=source(PartitionEnds(0, 110, 130))))
    assert here.reason is there.reason
    assert here.instance != there.instance
    stuck = [only(facts(lane(partition(position=at, end_seen=None)), of_source=BEHIND)).instance for at in (100, 101)]
    assert stuck == [100, 101]


ERROR_NAMES = sorted(
    {KafkaError(number).name() for number in range(-200, 140)} - {"", "_NO_ERROR", "NO_ERROR"}  # some have no name
)


@pytest.mark.parametrize("side", ["source", "target"])
def test_every_error_of_kafka_has_a_reason(side: Any) -> None:
    reasons = {name: reason_of(side, name) for name in ERROR_NAMES}
    assert R.SOURCE_IDLE not in reasons.values()
    assert {reasons[name] for name in ERROR_NAMES if "AUTHORIZATION" in name} == {R.AUTHORIZATION_FAILED}
    expected = {
        "COORDINATOR_NOT_AVAILABLE": (R.COORDINATOR_UNAVAILABLE,) * 2,
        "_TIMED_OUT": (R.LEADER_MISSING, R.COORDINATOR_UNAVAILABLE),
        "MSG_SIZE_TOO_LARGE": (R.WORKER_STUCK, R.TARGET_REFUSES),
        "KAFKA_STORAGE_ERROR": (R.WORKER_STUCK, R.TARGET_REFUSES),
        "UNKNOWN_TOPIC_OR_PART": (R.LEADER_MISSING, R.TARGET_REFUSES),
        "OFFSET_OUT_OF_RANGE": (R.RETENTION_OVERTOOK, R.WORKER_STUCK),
        "NOT_LEADER_FOR_PARTITION": (R.LEADER_MISSING,) * 2,
        "SASL_AUTHENTICATION_FAILED": (R.AUTHORIZATION_FAILED,) * 2,
        "_BAD_MSG": (R.WORKER_STUCK,) * 2,
    }
    for name, by_side in expected.items():
        assert reasons[name] is by_side[side == "target"], name


def test_coordinators_are_found_by_the_partitions_of_internal_topics() -> None:
    topics = {
        "__consumer_offsets": TopicSnapshot(partitions={n: PartitionSnapshot(n, None, (n,)) for n in range(4)}),
        "__transaction_state": TopicSnapshot(partitions={n: PartitionSnapshot(None, None, (n,)) for n in range(2)}),
    }
    found = list(coordinators(topics, "abc", {0: "abc", 1: "abd", 2: "abf"}))
    group, *transactions = found
    assert (group.partition, group.leader, group.lanes) == ("__consumer_offsets/2", 2, frozenset())
    assert [(one.partition, one.lanes) for one in transactions] == [
        ("__transaction_state/0", frozenset({0})),
        ("__transaction_state/1", frozenset({1, 2})),
    ]
    assert all(one.leader is None for one in transactions)
    assert list(coordinators({}, "abc", {0: "abc"})) == []
    assert list(coordinators({"__consumer_offsets": TopicSnapshot(error="DENIED")}, "abc", {})) == []


def test_partitions_that_wait_for_their_turn_because_of_the_limits_are_not_stuck() -> None:
    assert list(causes(facts(lane(limited_at=NOW - 30), of_source=BEHIND))) == []
    assert only(facts(lane(limited_at=NOW - 90), of_source=BEHIND)).reason is R.WORKER_STUCK
    assert only(facts(lane(limited_at=NOW), of_source=source(error="UNKNOWN_TOPIC_OR_PART"))).reason is (
        R.TOPIC_RECREATED
    )


def test_a_worker_that_may_not_join_the_group_says_so_and_one_that_has_lanes_has_joined() -> None:
    denied = error("GROUP_AUTHORIZATION_FAILED")
    nowhere = replace(facts(group_error=denied), lanes=())
    found = only(nowhere)
    assert (found.reason, found.is_certain) == (R.AUTHORIZATION_FAILED, True)
    assert "grant Read on the group" in found.sentence
    assert list(causes(replace(nowhere, group_error=error("_TRANSPORT")))) == []
    assert list(causes(facts(group_error=denied))) == []


def test_workers_without_lanes_look_after_the_first_lane() -> None:
    ages = {0: 30.0, 1: 30.0, 2: 30.0}
    found = only(replace(facts(heartbeat_ages=ages), lanes=()))
    assert (found.reason, found.lane) == (R.WORKER_STUCK, 0)
    assert list(causes(replace(facts(heartbeat_ages={0: 5.0, 1: 30.0}), lanes=()))) == []
