"""Owns the table of all findings: how bad each is, what it means, what to do, and what a repair may destroy.

Must not know how a finding is found. The reference page docs/reference/doctor-findings.md is made from this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.doctor_report import DoctorFinding

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import Severity, Side


class FindingId(StrEnum):
    """The stable name of each finding."""

    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    BROKER_NOT_REGISTERED = "BrokerNotRegistered"
    LEADER_MISSING = "LeaderMissing"
    GROUP_COORDINATOR_UNAVAILABLE = "GroupCoordinatorUnavailable"
    TRANSACTION_COORDINATOR_UNAVAILABLE = "TransactionCoordinatorUnavailable"
    BELOW_MIN_INSYNC = "BelowMinInsyncReplicas"
    UNDER_REPLICATED = "UnderReplicated"
    PARTITION_UNREADABLE = "PartitionUnreadable"
    TOPIC_MISSING = "TopicMissing"
    TOPIC_RECREATED = "TopicRecreated"
    CLUSTER_CHANGED = "ClusterChanged"
    SAME_CLUSTER = "SameCluster"
    OPERATION_DENIED = "OperationDenied"
    OPERATION_MISSING = "OperationMissing"
    GROUP_OVERTAKEN = "GroupOvertaken"
    RETENTION_NEAR = "RetentionNear"
    CLOCK_DIFFERS = "ClockDiffers"
    TIMESTAMP_IN_FUTURE = "TimestampInFuture"
    TIMESTAMP_TYPE_DIFFERS = "TimestampTypeDiffers"
    TIMESTAMP_REFUSED = "TimestampRefused"
    MESSAGE_TOO_LARGE = "MessageTooLarge"
    REQUEST_TOO_LARGE = "RequestTooLarge"
    REPLICA_FETCH_SMALL = "ReplicaFetchSmall"
    UNCLEAN_ELECTION = "UncleanElection"
    MIN_INSYNC_ONE = "MinInsyncOne"
    SINGLE_REPLICA = "SingleReplica"
    AUTO_CREATE = "AutoCreateTopics"
    TRANSACTION_TIMEOUT = "TransactionTimeout"
    OFFSETS_EXPIRE = "OffsetsExpire"
    CERTIFICATE_EXPIRED = "CertificateExpired"
    CERTIFICATE_EXPIRES = "CertificateExpires"
    CERTIFICATE_REFUSED = "CertificateRefused"
    GAP_TOPIC_NOT_COMPACTED = "GapTopicNotCompacted"
    CONTROL_TOPIC_NOT_COMPACTED = "ControlTopicNotCompacted"
    LINK_FAULT = "LinkFault"
    NOT_CHECKED = "NotChecked"


class Kind(NamedTuple):
    """What is the same in all findings of one id."""

    severity: Severity
    meaning: str
    action: str
    danger: str = ""


_POSITIONS = (
    "Deleting __consumer_offsets, in Kafka or on the brokers' disks, or electing a leader that does not have its "
    "records, destroys the positions of all consumer groups: each then reads from the beginning or skips to the end. "
    "Bring the old replicas back once, save the positions (kafka-consumer-groups.sh --describe --all-groups), and know "
    "how each group will continue."
)
_TRANSACTIONS = (
    "Deleting __transaction_state destroys what Kafka knows about open and prepared transactions: records of theirs "
    "stay invisible to readers of committed records, or block them."
)
_RECORDS = (
    "An unclean leader election (kafka-leader-election.sh --election-type UNCLEAN) brings the partition back and "
    "loses the records that only the missing replicas have. Deleting the topic loses all."
)

KINDS: dict[FindingId, Kind] = {
    FindingId.CLUSTER_UNREACHABLE: Kind(
        "error",
        "No broker answers, or the brokers refuse the connection.",
        "Do what the message says. An attempt to connect to each bootstrap server is in a finding of its own.",
    ),
    FindingId.BROKER_UNREACHABLE: Kind(
        "error",
        "The cluster names a broker to which this machine cannot connect.",
        "Check that the broker runs, that its advertised.listeners resolve and can be reached from here, and the "
        "firewalls.",
    ),
    FindingId.BROKER_NOT_REGISTERED: Kind(
        "error",
        "Partitions have replicas on broker IDs that are not registered. The brokers are down, or they came back with "
        "other IDs.",
        "Start the missing brokers with their old IDs (broker.id or node.id, and meta.properties). If an ID is gone "
        "for ever, move the replicas to registered brokers with kafka-reassign-partitions.sh.",
        _POSITIONS,
    ),
    FindingId.LEADER_MISSING: Kind(
        "error",
        "Partitions have no leader: nothing reads or writes them.",
        "Start the brokers that hold the replicas; a leader is elected at once when an in-sync replica is back.",
        _RECORDS,
    ),
    FindingId.GROUP_COORDINATOR_UNAVAILABLE: Kind(
        "error",
        "Consumer groups have no coordinator. Programs that consume with a group wait for ever without an error.",
        "Bring the leaders of __consumer_offsets back: start the brokers that hold its replicas with their old IDs, or "
        "move the replicas to registered brokers with kafka-reassign-partitions.sh.",
        _POSITIONS,
    ),
    FindingId.TRANSACTION_COORDINATOR_UNAVAILABLE: Kind(
        "error",
        "Transactional producers have no coordinator. They cannot begin or commit.",
        "Bring the leaders of __transaction_state back: start the brokers that hold its replicas with their old IDs, "
        "or move the replicas to registered brokers with kafka-reassign-partitions.sh.",
        _TRANSACTIONS,
    ),
    FindingId.BELOW_MIN_INSYNC: Kind(
        "error",
        "Partitions have fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused.",
        "Start the brokers of the replicas that are not in sync, and find out in their logs why they lag.",
        "Lowering min.insync.replicas lets writes through, and records are lost when the only replica is lost.",
    ),
    FindingId.UNDER_REPLICATED: Kind(
        "warning",
        "Partitions have replicas that are not in sync.",
        "Find out in the logs of these brokers why the replicas lag or are down.",
    ),
    FindingId.PARTITION_UNREADABLE: Kind(
        "error",
        "A partition cannot be read, without any consumer group.",
        "Check the right Read on the topic, the broker that leads the partition, and its log.",
    ),
    FindingId.TOPIC_MISSING: Kind(
        "error",
        "A topic that was named does not exist.",
        "Correct the name, or create the topic.",
    ),
    FindingId.TOPIC_RECREATED: Kind(
        "error",
        "A topic was deleted and recreated: its offsets name other records than the remembered ones.",
        "Find out who recreated it. Decide what becomes of the records of the old topic before anything continues from "
        "remembered positions.",
    ),
    FindingId.CLUSTER_CHANGED: Kind(
        "error",
        "The address leads to another cluster than the remembered one.",
        "Correct the address, or stop using what is remembered of the other cluster.",
    ),
    FindingId.SAME_CLUSTER: Kind(
        "error",
        "Source and target are the same cluster, and topics have the same names: a mirror would copy its own output.",
        "Correct one of the addresses, or rename the topics.",
    ),
    FindingId.OPERATION_DENIED: Kind(
        "error",
        "This user lacks an operation without which nothing can be read or written.",
        "Grant the operation with kafka-acls.sh, or log in as another user.",
    ),
    FindingId.OPERATION_MISSING: Kind(
        "warning",
        "This user lacks an operation that a mirror needs for a part of its work.",
        "Grant the operation with kafka-acls.sh, or do without what the finding names.",
    ),
    FindingId.GROUP_OVERTAKEN: Kind(
        "error",
        "Kafka has deleted records that a consumer group has not read.",
        "Resend or restore the range from another copy, such as an archive, and keep records longer. The group "
        "continues behind the loss.",
    ),
    FindingId.RETENTION_NEAR: Kind(
        "warning",
        "Kafka will soon delete records that a consumer group has not read.",
        "Find out why the group is slow, and raise retention.ms or retention.bytes until it has caught up.",
    ),
    FindingId.CLOCK_DIFFERS: Kind(
        "warning",
        "The clock of a broker and the clock of this machine differ.",
        "Synchronize the clocks (chronyc tracking shows the offset). Lag in seconds, time ranges and retention are "
        "wrong until then.",
    ),
    FindingId.TIMESTAMP_IN_FUTURE: Kind(
        "warning",
        "Records have timestamps in the future. Retention by time keeps their segments until that time is over.",
        "Correct the clock of the producers.",
    ),
    FindingId.TIMESTAMP_TYPE_DIFFERS: Kind(
        "warning",
        "The target replaces timestamps by the time of writing (message.timestamp.type=LogAppendTime), the source does "
        "not.",
        "Set message.timestamp.type=CreateTime on the topic of the target.",
    ),
    FindingId.TIMESTAMP_REFUSED: Kind(
        "warning",
        "The target refuses records that are as old as those of the source.",
        "Raise message.timestamp.before.max.ms on the topic of the target to the retention of the source or more.",
    ),
    FindingId.MESSAGE_TOO_LARGE: Kind(
        "warning",
        "The source takes larger messages than the target: a copy stops at the first one that is too large.",
        "Raise max.message.bytes on the topic of the target (message.max.bytes on its brokers) to that of the source.",
    ),
    FindingId.REQUEST_TOO_LARGE: Kind(
        "error",
        "A message of the allowed size does not fit into a request (socket.request.max.bytes).",
        "Raise socket.request.max.bytes on the brokers, or lower max.message.bytes on the topic.",
    ),
    FindingId.REPLICA_FETCH_SMALL: Kind(
        "note",
        "Messages may be larger than replica.fetch.max.bytes: replicas then copy one batch per request, slowly.",
        "Raise replica.fetch.max.bytes on the brokers to max.message.bytes or more.",
    ),
    FindingId.UNCLEAN_ELECTION: Kind(
        "warning",
        "A replica that is not in sync may become leader: records that were acknowledged can be lost, and offsets then "
        "name other records.",
        "Set unclean.leader.election.enable=false.",
    ),
    FindingId.MIN_INSYNC_ONE: Kind(
        "warning",
        "Writes are acknowledged when one replica has them, although there are three or more.",
        "Set min.insync.replicas=2.",
    ),
    FindingId.SINGLE_REPLICA: Kind(
        "warning",
        "Partitions have one replica, although the cluster has several brokers: they stop when their broker stops.",
        "Add replicas with kafka-reassign-partitions.sh.",
    ),
    FindingId.AUTO_CREATE: Kind(
        "note",
        "Brokers create topics that do not exist (auto.create.topics.enable=true): a wrong name or a deleted topic "
        "becomes a new topic with default settings.",
        "Set auto.create.topics.enable=false.",
    ),
    FindingId.TRANSACTION_TIMEOUT: Kind(
        "error",
        "The target does not allow transactions as long as Gapless needs them: it refuses the producer.",
        "Raise transaction.max.timeout.ms on the brokers.",
    ),
    FindingId.OFFSETS_EXPIRE: Kind(
        "warning",
        "Kafka forgets the positions of a consumer group without members within a day.",
        "Raise offsets.retention.minutes on the brokers; the default is 10080 (7 days).",
    ),
    FindingId.CERTIFICATE_EXPIRED: Kind(
        "error",
        "A certificate has expired, or is not valid yet.",
        "Replace the certificate.",
    ),
    FindingId.CERTIFICATE_EXPIRES: Kind(
        "warning",
        "A certificate expires soon.",
        "Replace the certificate before that day.",
    ),
    FindingId.CERTIFICATE_REFUSED: Kind(
        "error",
        "A broker's certificate is not trusted.",
        "Give the CA certificates that verify the brokers, or correct the names in the broker's certificate.",
    ),
    FindingId.GAP_TOPIC_NOT_COMPACTED: Kind(
        "error",
        "The topic with gap records is not compacted: records of gaps expire, and with them what is known to be "
        "missing.",
        "Set cleanup.policy=compact on the topic, and find out with gapless audit what has arrived.",
    ),
    FindingId.CONTROL_TOPIC_NOT_COMPACTED: Kind(
        "error",
        "The control topic of a mirror is not compacted: Kafka deletes its positions, and the mirror refuses to start.",
        "Set cleanup.policy=compact on the topic.",
        "Deleting the control topic destroys the mirror's positions: it then copies everything again.",
    ),
    FindingId.LINK_FAULT: Kind(
        "error",
        "This machine cannot send over the link.",
        "Do what the message says; gapless link preflight shows the details.",
    ),
    FindingId.NOT_CHECKED: Kind(
        "note",
        "Something could not be checked.",
        "Grant what the message names and run again, or check it in another way.",
    ),
}


def finding(  # noqa: PLR0913 -- what makes a finding
    kind: FindingId, side: Side, message: str, *, where: str = "", action: str = "", danger: str | None = None
) -> DoctorFinding:
    """A finding with what the table has for its id; `action` and `danger` replace the table's."""
    known = KINDS[kind]
    return DoctorFinding(
        id=str(kind),
        severity=known.severity,
        side=side,
        where=where,
        message=message,
        action=action or known.action,
        danger=known.danger if danger is None else danger,
    )
