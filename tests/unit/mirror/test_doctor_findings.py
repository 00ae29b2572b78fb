"""The proof that findings follow from the observations, and that a missing observation is a finding."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.base.quantities import duration_text, quantity
from gapless_kafka.topics.coordinators import coordinator_partition
from gapless_mirror.doctor.findings.all_findings import findings_of
from gapless_mirror.doctor.findings.times import clock_bounds
from gapless_mirror.doctor.findings.wording import names, numbers, partitions
from gapless_mirror.doctor.kinds import KINDS, FindingId
from gapless_mirror.doctor.observed import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    AccessRule,
    Broker,
    BrokerConnection,
    BrokerStamp,
    Certificate,
    Cluster,
    Group,
    GroupPosition,
    Identity,
    Observations,
    Partition,
    PartitionOffsets,
    Probe,
    TopicDetails,
    Unknown,
    Unreachable,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW_MS = NOW.timestamp() * 1000
ALL = frozenset(
    {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALTER", "CREATE", "IDEMPOTENT_WRITE"}
)
GOOD = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
}
BROKERS = {number: Broker(number, f"kafka-{number}", 9092) for number in (1, 2, 3)}
LED = Partition(1, (1, 2, 3), (1, 2, 3))
STAMP = BrokerStamp((GROUP_TOPIC, 0), NOW_MS - 500, NOW_MS, int(NOW_MS) - 200, is_new=True)
ORDERS_0 = ("orders", 0)


def topic(id_: str = "A1", **settings: str) -> TopicDetails:
    return TopicDetails(id_, {**GOOD, **{name.replace("_", "."): value for name, value in settings.items()}}, ALL)


def cluster(side: Any = "source", **changes: Any) -> Cluster:
    """A cluster without findings."""
    good = Cluster(
        side=side,
        servers=f"{side}:9092",
        id=f"cluster-{side}",
        brokers=BROKERS,
        partitions={
            "orders": {0: LED, 1: replace(LED, leader=2)},
            GROUP_TOPIC: dict.fromkeys(range(4), LED),
            TRANSACTION_TOPIC: dict.fromkeys(range(4), LED),
        },
        checked=["orders"],
        operations=ALL,
        topics={"orders": topic()},
        broker_settings={1: {"message.max.bytes": "1048588"}},
        connections=[BrokerConnection(broker) for broker in BROKERS.values()],
        offsets={ORDERS_0: PartitionOffsets(0, 10, int(NOW_MS) - 1000)},
        stamps=[STAMP],
        probes=[Probe(ORDERS_0)],
    )
    return replace(good, **changes)


def seen(source: Cluster | Unreachable | None = None, target: Cluster | Unreachable | None = None, **more: Any) -> Any:
    return Observations(
        at_ms=NOW_MS, source=source or cluster(), target=target, target_names={"orders": "orders"}, **more
    )


def found(observations: Observations) -> dict[str, Any]:
    """The findings by ID, of which each occurs once here."""
    listed = findings_of(observations)
    assert len({one.id for one in listed}) == len(listed), [one.message for one in listed]
    return {one.id: one for one in listed}


def the_only(observations: Observations, kind: FindingId) -> Any:
    by_id = found(observations)
    assert list(by_id) == [str(kind)], {one.id: one.message for one in by_id.values()}
    assert by_id[kind].severity == KINDS[kind].severity
    return by_id[kind]


def test_healthy_clusters_have_no_findings() -> None:
    assert findings_of(seen()) == []
    assert findings_of(seen(target=cluster("target"))) == []


def test_replicas_on_ids_that_are_not_registered_are_named_with_the_danger_of_the_repair() -> None:
    old = Partition(-1, (1001, 1002), (1001,))
    changed = {GROUP_TOPIC: {0: LED, 1: old}, "orders": {0: LED}, TRANSACTION_TOPIC: {0: LED}}
    by_id = found(seen(cluster(partitions=changed)))
    assert set(by_id) == {"BrokerNotRegistered", "GroupCoordinatorUnavailable"}
    lost = by_id["BrokerNotRegistered"]
    assert lost.where == f"{GROUP_TOPIC} 1"
    assert "1001-1002" in lost.message
    assert "registered are 1-3" in lost.message
    assert GROUP_TOPIC in lost.message
    assert "destroys the committed offsets of all consumer groups" in lost.danger
    coordinator = by_id["GroupCoordinatorUnavailable"]
    assert coordinator.message.startswith(f"1 of 2 partitions of {GROUP_TOPIC}")
    assert "Without a group, orders 0 can be read" in coordinator.message
    assert "destroys the committed offsets of all consumer groups" in coordinator.danger


def test_an_unregistered_leader_counts_as_none() -> None:
    by_id = found(seen(cluster(partitions={"orders": {0: Partition(7, (7,), (7,)), 1: LED}})))
    assert {"BrokerNotRegistered", "LeaderMissing"} <= set(by_id)
    assert by_id["LeaderMissing"].where == "orders 0"
    assert by_id["BrokerNotRegistered"].danger == ""
    assert "loses the records" in by_id["LeaderMissing"].danger


def test_the_group_whose_coordinator_is_lost_is_named() -> None:
    number = coordinator_partition("billing", 4)
    lost = {**dict.fromkeys(range(4), LED), number: replace(LED, leader=-1)}
    asked = Group("billing", Unknown("timed out"))
    one = the_only(
        seen(cluster(partitions={"orders": {0: LED}, GROUP_TOPIC: lost}, groups=[asked])),
        FindingId.GROUP_COORDINATOR_UNAVAILABLE,
    )
    assert "billing" in one.message
    assert one.where == f"{GROUP_TOPIC} {number}"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", 0),
        ("hello", 99162322),
        ("BB", 2112),
        ("gä", 3421),
        ("polygenelubricants", 0),
        ("my-group", 1906497762),
        ("kafka-txn-0", 1469191130),
    ],
)
def test_coordinators_are_chosen_like_kafka_does(name: str, code: int) -> None:
    # What Java's String.hashCode is known to return, without the sign that the last two have there. That of the one
    # before them is the least integer, which has no opposite.
    assert coordinator_partition(name, 2**31) == code


def test_half_of_all_names_have_a_negative_hash() -> None:
    """Where Kafka keeps these is known: a public walk through its internal topics shows both, of 50 partitions."""
    assert (coordinator_partition("my-group", 50), coordinator_partition("kafka-txn-0", 50)) == (12, 30)


def test_a_coordinator_that_does_not_respond_differs_from_one_that_denies() -> None:
    silent = the_only(seen(cluster(groups=[Group("g", Unknown("Timed out"))])), FindingId.GROUP_COORDINATOR_UNAVAILABLE)
    assert "Timed out" in silent.message
    denied = the_only(
        seen(cluster(groups=[Group("g", Unknown("Not authorized"), is_denied=True)])), FindingId.NOT_CHECKED
    )
    assert "Not authorized" in denied.message


def test_lost_transaction_coordinators_are_named_with_the_ids_that_they_hold() -> None:
    number = coordinator_partition("gapless-mirror-m-0", 4)
    lost = {**dict.fromkeys(range(4), LED), number: replace(LED, leader=-1)}
    target = cluster("target")
    target = replace(target, partitions={**target.partitions, TRANSACTION_TOPIC: lost})
    ids = ["gapless-mirror-m-0"]
    one = the_only(seen(target=target, transactional_ids=ids), FindingId.TRANSACTION_COORDINATOR_UNAVAILABLE)
    assert "gapless-mirror-m-0" in one.message
    assert "__transaction_state" in one.danger


def test_hidden_internal_topics_are_reported() -> None:
    shown = {"orders": {0: LED}}
    one = the_only(
        seen(cluster(partitions=shown, hidden_topics=frozenset({GROUP_TOPIC, TRANSACTION_TOPIC}))),
        FindingId.NOT_CHECKED,
    )
    assert one.where == GROUP_TOPIC
    two = the_only(
        seen(target=cluster("target", partitions=shown, hidden_topics=frozenset({TRANSACTION_TOPIC}))),
        FindingId.NOT_CHECKED,
    )
    assert two.where == TRANSACTION_TOPIC


def test_out_of_sync_replicas_are_worse_below_min_insync_replicas() -> None:
    lagging = {"orders": {0: replace(LED, in_sync=(1, 2)), 1: replace(LED, in_sync=(1,))}}
    by_id = found(seen(cluster(partitions=lagging)))
    assert {name: one.where for name, one in by_id.items()} == {
        "BelowMinInsyncReplicas": "orders 1",
        "UnderReplicated": "orders 0",
    }


def test_a_partition_that_cannot_be_read() -> None:
    one = the_only(
        seen(cluster(probes=[Probe(ORDERS_0, "Topic authorization failed")])), FindingId.PARTITION_UNREADABLE
    )
    assert "Topic authorization failed" in one.message
    unread = the_only(seen(cluster(probes=Unknown("this user may read none"))), FindingId.NOT_CHECKED)
    assert "this user may read none" in unread.message


def test_named_topics_must_exist_and_hidden_ones_are_reported() -> None:
    missing = the_only(seen(named={"source": ["orders", "nix"]}), FindingId.TOPIC_MISSING)
    assert missing.where == "nix"
    hidden = cluster(unseen_topics={"secret": Unknown("Kafka denies access")})
    one = the_only(seen(hidden, named={"source": ["secret"]}), FindingId.NOT_CHECKED)
    assert "Kafka denies access" in one.message


def test_a_recreated_topic_and_a_changed_cluster() -> None:
    before = [Identity("source", "orders", "OLD", "doctor.json")]
    one = the_only(seen(remembered=before, remembered_clusters={"source": "cluster-source"}), FindingId.TOPIC_RECREATED)
    assert "OLD -> A1" in one.message
    assert "doctor.json" in one.message
    other = the_only(seen(remembered=before, remembered_clusters={"source": "other"}), FindingId.CLUSTER_CHANGED)
    assert "the earlier report has other" in other.message
    assert findings_of(seen(cluster(topics={"orders": topic("")}), remembered=before)) == [], "brokers without IDs"
    gone = the_only(seen(remembered=[Identity("source", "old", "B", "doctor.json")]), FindingId.TOPIC_MISSING)
    assert gone.where == "old"
    assert findings_of(seen(remembered=[Identity("source", "orders", "A1", "doctor.json")])) == []


def test_a_target_that_is_the_source() -> None:
    same = cluster("target", id="cluster-source")
    assert the_only(seen(target=same), FindingId.SAME_CLUSTER).where == "orders"
    renamed = replace(seen(target=same), target_names={"orders": "copy.orders"})
    assert "SameCluster" not in {one.id for one in findings_of(renamed)}


@pytest.mark.parametrize(
    ("side", "lacks", "kind"),
    [
        ("source", "READ", FindingId.OPERATION_DENIED),
        ("source", "DESCRIBE_CONFIGS", FindingId.OPERATION_MISSING),
        ("target", "WRITE", FindingId.OPERATION_DENIED),
        ("target", "ALTER_CONFIGS", FindingId.OPERATION_MISSING),
        ("target", "ALTER", FindingId.OPERATION_MISSING),
    ],
)
def test_each_operation_that_is_lacking_is_named(side: str, lacks: str, kind: FindingId) -> None:
    poor = cluster(side, topics={"orders": replace(topic(), operations=ALL - {lacks})})
    one = the_only(seen(poor) if side == "source" else seen(target=poor), kind)
    assert one.side == side
    assert lacks.replace("_", "").lower() in one.message.lower()
    assert "kafka-acls.sh" in one.action


def test_operations_on_the_target_cluster() -> None:
    new = cluster("target", topics={}, operations=ALL - {"CREATE"}, offsets={})
    messages = [one.message for one in findings_of(seen(target=new)) if one.id == FindingId.NOT_CHECKED]
    assert any("lacks the operation Create" in message for message in messages)
    assert findings_of(seen(cluster(operations=frozenset()))) == [], "who only reads needs nothing of the cluster"
    unknown = cluster("target", operations=Unknown("the brokers do not return them"))
    assert "the brokers do not return them" in the_only(seen(target=unknown), FindingId.NOT_CHECKED).message


MINE = AccessRule("User:alice", "north-", is_prefix=True, operation="WRITE", allows=True)


@pytest.mark.parametrize(
    ("rules", "is_refused"),
    [
        ([MINE], False),
        ([replace(MINE, operation="ALL", principal="User:*")], False),
        ([replace(MINE, is_prefix=False, name="*")], False),
        ([replace(MINE, is_prefix=False, name="north-0")], False),
        ([], True),
        ([replace(MINE, operation="DESCRIBE")], True),
        ([replace(MINE, principal="User:bob")], True),
        ([replace(MINE, is_prefix=False)], True),
        ([MINE, replace(MINE, name="north-0", allows=False)], True),
    ],
)
def test_transactional_ids_are_compared_with_the_acls(rules: list[AccessRule], is_refused: bool) -> None:  # noqa: FBT001
    target = cluster("target", principal="User:alice", transactional_rules=rules)
    observed = seen(target=target, transactional_ids=["north-0"])
    if not is_refused:
        assert findings_of(observed) == []
        return
    one = the_only(observed, FindingId.OPERATION_MISSING)
    assert one.where == "north-0"
    assert "--transactional-id north-0" in one.action


def test_administrators_need_no_acls() -> None:
    target = cluster("target", principal="", transactional_rules=(), operations=ALL | {"CLUSTER_ACTION"})
    assert findings_of(seen(target=target)) == []


@pytest.mark.parametrize(
    ("changes", "ids", "reason"),
    [
        ({"transactional_rules": Unknown("Kafka denies access")}, ["a"], "Kafka denies access"),
        ({"transactional_rules": []}, [], "none was named"),
        ({"transactional_rules": [], "principal": ""}, ["a"], "only the brokers know"),
    ],
)
def test_unknown_acls_for_transactional_ids_are_reported(changes: dict[str, Any], ids: list[str], reason: str) -> None:
    target = cluster("target", **{"principal": "User:alice", **changes})
    assert reason in the_only(seen(target=target, transactional_ids=ids), FindingId.NOT_CHECKED).message


def test_settings_that_lose_records() -> None:
    unclean = cluster(topics={"orders": topic(unclean_leader_election_enable="true")})
    assert the_only(seen(unclean), FindingId.UNCLEAN_ELECTION).where == "orders"
    loose = cluster(topics={"orders": topic(min_insync_replicas="1")})
    assert the_only(seen(loose), FindingId.MIN_INSYNC_ONE).where == "orders"
    single = cluster(
        partitions={"orders": {0: Partition(1, (1,), (1,))}}, topics={"orders": topic(min_insync_replicas="1")}
    )
    assert the_only(seen(single), FindingId.SINGLE_REPLICA).where == "orders"
    alone = replace(single, brokers={1: BROKERS[1]})
    assert findings_of(seen(alone)) == []


@pytest.mark.parametrize(
    ("side", "name", "value", "kind"),
    [
        ("source", "auto.create.topics.enable", "true", FindingId.AUTO_CREATE),
        ("source", "offsets.retention.minutes", "60", FindingId.OFFSETS_EXPIRE),
        ("target", "transaction.max.timeout.ms", "60000", FindingId.TRANSACTION_TIMEOUT),
        ("source", "socket.request.max.bytes", "1048600", FindingId.REQUEST_TOO_LARGE),
        ("source", "replica.fetch.max.bytes", "1000000", FindingId.REPLICA_FETCH_SMALL),
    ],
)
def test_settings_of_brokers(side: str, name: str, value: str, kind: FindingId) -> None:
    poor = cluster(side, broker_settings={1: {}, 2: {name: value}})
    the_only(seen(poor) if side == "source" else seen(target=poor), kind)


def test_settings_that_cannot_be_read_are_reported() -> None:
    one = the_only(seen(cluster(broker_settings=Unknown("Kafka denies access"))), FindingId.NOT_CHECKED)
    assert "DescribeConfigs" in one.action
    blind = cluster(topics={"orders": replace(topic(), configuration=Unknown("Kafka denies access"))})
    assert "settings of 1 topic" in the_only(seen(blind), FindingId.NOT_CHECKED).message


def test_messages_that_are_too_large_for_the_target() -> None:
    small = cluster("target", topics={"orders": topic(max_message_bytes="1000")})
    one = the_only(seen(target=small), FindingId.MESSAGE_TOO_LARGE)
    assert "1,048,588" in one.message
    assert "1,000" in one.message
    new = cluster("target", topics={}, offsets={}, broker_settings={1: {"message.max.bytes": "5000"}})
    assert "5,000" in found(seen(target=new))["MessageTooLarge"].message
    blind = cluster("target", topics={}, offsets={}, broker_settings={})
    assert "was not checked" in the_only(seen(target=blind), FindingId.NOT_CHECKED).message


def test_timestamps_that_the_target_replaces_or_refuses() -> None:
    appending = cluster("target", topics={"orders": topic(message_timestamp_type="LogAppendTime")})
    the_only(seen(target=appending), FindingId.TIMESTAMP_TYPE_DIFFERS)
    strict = cluster("target", topics={"orders": topic(message_timestamp_before_max_ms="86400000")})
    the_only(seen(target=strict), FindingId.TIMESTAMP_REFUSED)
    assert findings_of(seen(cluster(topics={"orders": topic(retention_ms="-1")}), target=cluster("target"))) == []
    short = cluster(topics={"orders": topic(retention_ms="3600000")})
    assert findings_of(seen(short, target=strict)) == []


def test_the_gaps_topic_is_not_compared_with_the_target() -> None:
    source = cluster(
        topics={"orders": topic(), "gaps": topic("G1", cleanup_policy="compact", max_message_bytes="9999")}
    )
    source = replace(source, partitions={**source.partitions, "gaps": {0: LED}})
    assert findings_of(seen(source, target=cluster("target"), gap_topic="gaps")) == []
    same = seen(source, target=cluster("target", id="cluster-source"), gap_topic="gaps")
    assert the_only(same, FindingId.SAME_CLUSTER).where == "orders"


def test_a_topic_that_was_created_after_the_metadata_request_is_no_failure() -> None:
    new = cluster(topics={"orders": topic(), "new": topic("N1")})
    assert findings_of(seen(new)) == []


def test_timestamps_in_the_future() -> None:
    ahead = {ORDERS_0: PartitionOffsets(0, 10, int(NOW_MS) + 3_600_000 * 5)}
    one = the_only(seen(cluster(offsets=ahead)), FindingId.TIMESTAMP_IN_FUTURE)
    assert "5 h" in one.message
    appended = cluster(offsets=ahead, topics={"orders": topic(message_timestamp_type="LogAppendTime")})
    assert findings_of(seen(appended)) == []


@pytest.mark.parametrize(
    ("newest_seconds", "is_new", "bounds"),
    [
        (-0.2, True, (-0.2, 0.3)),
        (30, True, (30, 30.5)),
        (-3600, True, (-3600, -3599.5)),
        (30, False, (30, None)),
        (-3600, False, (-3600, None)),
    ],
)
def test_clocks_are_bounded_by_what_brokers_write(newest_seconds: float, is_new: bool, bounds: Any) -> None:  # noqa: FBT001
    stamp = replace(STAMP, newest_ms=int(NOW_MS + newest_seconds * 1000), is_new=is_new)
    assert clock_bounds([stamp]) == bounds
    by_id = found(seen(cluster(stamps=[stamp])))
    if abs(newest_seconds) < 5:
        assert by_id == {}
    elif not is_new and newest_seconds < 0:
        assert list(by_id) == ["NotChecked"]
    else:
        assert list(by_id) == ["ClockDiffers"]
        assert ("ahead" if newest_seconds > 0 else "behind") in by_id["ClockDiffers"].message


def test_a_correct_clock_does_not_hide_a_wrong_one_and_missing_timestamps_are_reported() -> None:
    wrong = replace(STAMP, newest_ms=int(NOW_MS) - 60_000)
    assert "behind" in the_only(seen(cluster(stamps=[STAMP, wrong, STAMP])), FindingId.CLOCK_DIFFERS).message
    assert (
        "no broker has written a timestamp that this user may read"
        in the_only(seen(cluster(stamps=[])), FindingId.NOT_CHECKED).message
    )


def group_at(offset: int, record_ms: float | None = None) -> Group:
    return Group("billing", {ORDERS_0: GroupPosition(offset, None if record_ms is None else int(record_ms))})


def test_retention_against_lag() -> None:
    offsets = {ORDERS_0: PartitionOffsets(100, 200, int(NOW_MS) - 1000)}
    lost = the_only(seen(cluster(offsets=offsets, groups=[group_at(90)])), FindingId.GROUP_OVERTAKEN)
    assert "offsets 90 to 99" in lost.message
    week = 604_800_000
    near = the_only(
        seen(cluster(offsets=offsets, groups=[group_at(110, NOW_MS - 0.9 * week)])), FindingId.RETENTION_NEAR
    )
    assert "6 d old" in near.message
    assert findings_of(seen(cluster(offsets=offsets, groups=[group_at(110, NOW_MS - 0.5 * week)]))) == []
    for next_offset in (100, 200):
        assert findings_of(seen(cluster(offsets=offsets, groups=[group_at(next_offset)]))) == []
    bounded = cluster(offsets=offsets, groups=[group_at(110)], topics={"orders": topic(retention_bytes="1000000")})
    assert "90 of 100 offsets" in the_only(seen(bounded), FindingId.RETENTION_NEAR).message
    young = replace(bounded, offsets={ORDERS_0: PartitionOffsets(0, 200)})
    assert findings_of(seen(replace(young, groups=[group_at(0)]))) == [], "nothing was ever deleted"
    compacted = replace(bounded, topics={"orders": topic(retention_bytes="1000000", cleanup_policy="compact")})
    assert findings_of(seen(compacted)) == []


def test_a_group_after_the_end_of_a_partition() -> None:
    offsets = {ORDERS_0: PartitionOffsets(100, 200)}
    for next_offset in (201, 5000):
        ahead = the_only(seen(cluster(offsets=offsets, groups=[group_at(next_offset)])), FindingId.GROUP_BEYOND_END)
        assert ahead.message.endswith(f"{next_offset:,}, and the log ends at 200.")
    mirror = replace(group_at(201), noun="mirror", has_positions=False)
    assert findings_of(seen(cluster(offsets=offsets, groups=[mirror]))) == [], "its positions are read after the ends"


def test_a_mirror_loses_records_like_a_group_and_its_control_topic_must_be_compacted() -> None:
    reads = replace(group_at(90), name="north", noun="mirror", has_positions=False)
    offsets = {ORDERS_0: PartitionOffsets(100, 200)}
    lost = the_only(seen(cluster(offsets=offsets, groups=[reads])), FindingId.GROUP_OVERTAKEN)
    assert "The mirror north has lost 10 offsets" in lost.message
    assert "onDataLoss" in lost.action
    assert "auto.offset.reset" not in lost.action
    name = "_gapless_mirror_north"
    target = cluster("target", topics={"orders": topic(), name: topic(cleanup_policy="delete")})
    target = replace(target, partitions={**target.partitions, name: {0: LED}})
    deleted = the_only(seen(target=target, control_topic=name), FindingId.CONTROL_TOPIC_NOT_COMPACTED)
    assert deleted.where == name
    assert "copies all records again" in deleted.danger


def test_other_missing_observations_are_reported() -> None:
    one = the_only(seen(unknown=[("target", Unknown("The mirror was not checked"))]), FindingId.NOT_CHECKED)
    assert (one.side, one.message) == ("target", "The mirror was not checked.")


def test_a_group_without_committed_offsets_is_reported() -> None:
    hidden = Group("g", Unknown("Not authorized"), is_denied=True, has_positions=False)
    assert "coordinator of the group g" in the_only(seen(cluster(groups=[hidden])), FindingId.NOT_CHECKED).message
    assert "no committed offsets" in the_only(seen(cluster(groups=[Group("g", {})])), FindingId.NOT_CHECKED).message
    assert findings_of(seen(cluster(groups=[Group("g", {}, has_positions=False)]))) == []


@pytest.mark.parametrize(
    ("begins", "expires", "kind"),
    [
        (-1, 31, None),
        (-1, 29, FindingId.CERTIFICATE_EXPIRES),
        (-30, -1, FindingId.CERTIFICATE_EXPIRED),
        (1, 90, FindingId.CERTIFICATE_EXPIRED),
    ],
)
def test_certificates_of_brokers_and_in_files(begins: int, expires: int, kind: FindingId | None) -> None:
    day = timedelta(days=1)
    shown = Certificate("CN=kafka", NOW + begins * day, NOW + expires * day, "kafka-1:9092")
    of_broker = seen(cluster(connections=[BrokerConnection(BROKERS[1], certificates=(shown,))]))
    in_file = seen(certificates=[replace(shown, where="/tls/ca.crt", setting="caFile")])
    if kind is None:
        assert findings_of(of_broker) == findings_of(in_file) == []
        return
    assert "the brokers" in the_only(of_broker, kind).message
    assert the_only(of_broker, kind).where == "kafka-1:9092"
    assert "caFile" in the_only(in_file, kind).message
    assert the_only(in_file, kind).side == "local"


def test_brokers_that_cannot_be_connected_to_or_are_not_trusted() -> None:
    one = the_only(
        seen(cluster(connections=[BrokerConnection(BROKERS[2], "Connection refused")])), FindingId.BROKER_UNREACHABLE
    )
    assert one.where == "kafka-2:9092"
    two = the_only(
        seen(cluster(connections=[BrokerConnection(BROKERS[2], distrust="self-signed certificate")])),
        FindingId.CERTIFICATE_REFUSED,
    )
    assert "self-signed certificate" in two.message


def test_a_cluster_that_does_not_answer_does_not_hide_the_other() -> None:
    down = Unreachable("target", "b:9092", "no answer", [BrokerConnection(Broker(-1, "b", 9092), "refused")])
    by_id = found(seen(cluster(topics={"orders": topic(unclean_leader_election_enable="true")}), target=down))
    assert list(by_id) == ["ClusterUnreachable", "BrokerUnreachable", "UncleanElection"]


def test_the_gaps_topic_must_be_compacted() -> None:
    one = the_only(seen(gap_topic="orders"), FindingId.GAP_TOPIC_NOT_COMPACTED)
    assert "cleanup.policy=delete" in one.message
    good = cluster(topics={"orders": topic(cleanup_policy="compact")})
    assert findings_of(seen(good, gap_topic="orders")) == []


def test_offsets_that_cannot_be_read_are_reported() -> None:
    blind = cluster(offsets={ORDERS_0: Unknown("Timed out")})
    assert "Timed out" in the_only(seen(blind), FindingId.NOT_CHECKED).message


def test_lists_in_findings_are_short() -> None:
    assert numbers([3, 1, 2, 7]) == "1-3, 7"
    assert numbers(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10 and 14 more"
    assert partitions([("b", 0), ("a", 1), ("a", 0)]) == "a 0-1; b 0"
    assert partitions([(f"t{number:02}", 0) for number in range(10)]).endswith("t07 0 and 2 more topics")
    assert names([f"t{number}" for number in range(10)]).endswith("t7 and 2 more")
    assert [quantity(1, "topic"), quantity(2000, "topic")] == ["1 topic", "2,000 topics"]
    assert [duration_text(each) for each in (0.25, 45, 600, 7200, 604800)] == ["0.2 s", "45 s", "10 min", "2 h", "7 d"]


def test_the_table_has_every_finding() -> None:
    assert set(KINDS) == set(FindingId)
