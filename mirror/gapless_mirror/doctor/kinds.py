"""The table of all findings: severity, meaning, action, and what a repair may destroy.

Must not know how a finding is detected. The page docs/reference/doctor-findings.md is generated from this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from gapless_api.wire.doctor_report import DoctorFinding, Severity, Side


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
    SOURCE_TRUNCATED = "SourceTruncated"
    TARGET_DELETED = "TargetDeleted"
    TARGET_RECREATED = "TargetRecreated"
    TARGET_TRUNCATED = "TargetTruncated"
    TARGET_DIVERGED = "TargetDiverged"
    CLUSTER_CHANGED = "ClusterChanged"
    SAME_CLUSTER = "SameCluster"
    OPERATION_DENIED = "OperationDenied"
    OPERATION_MISSING = "OperationMissing"
    GROUP_OVERTAKEN = "GroupOvertaken"
    GROUP_BEYOND_END = "GroupBeyondEnd"
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
    TOPIC_LEFT_OUT = "TopicLeftOut"
    NOT_CHECKED = "NotChecked"


class Kind(NamedTuple):
    """What all findings with one ID have in common."""

    severity: Severity
    meaning: str
    action: str
    danger: str = ""


_POSITIONS = (
    "Deleting __consumer_offsets, in Kafka or on the brokers' disks, or an unclean leader election of its partitions "
    "destroys the committed offsets of all consumer groups: each group then reads from the beginning or skips to the "
    "end. First bring the old replicas back, save the committed offsets (kafka-consumer-groups.sh --describe "
    "--all-groups), and decide where each group continues."
)
_TRANSACTIONS = (
    "Deleting __transaction_state destroys the state of open and prepared transactions: their records stay invisible "
    "to read_committed consumers, or block them."
)
_RECORDS = (
    "An unclean leader election (kafka-leader-election.sh --election-type UNCLEAN) brings the partition online "
    "and loses the records that only the missing replicas have. Deleting the topic loses all records."
)

KINDS: dict[FindingId, Kind] = {
    FindingId.CLUSTER_UNREACHABLE: Kind(
        "error",
        "No broker answers, or the brokers refuse the connection.",
        "Follow the message. Other findings show the result of connecting to each bootstrap server.",
    ),
    FindingId.BROKER_UNREACHABLE: Kind(
        "error",
        "This machine cannot connect to the advertised address of a broker.",
        "Check that the broker is running, that its advertised.listeners resolve and are reachable from here, and the "
        "firewalls.",
    ),
    FindingId.BROKER_NOT_REGISTERED: Kind(
        "error",
        "Partitions have replicas on broker IDs that are not registered: the brokers are down, or came back with other "
        "IDs.",
        "Start the missing brokers with their old IDs (broker.id or node.id, and meta.properties). If a broker "
        "is lost for good, move its replicas to registered brokers with kafka-reassign-partitions.sh.",
        _POSITIONS,
    ),
    FindingId.LEADER_MISSING: Kind(
        "error",
        "Partitions are offline: they have no leader, so nothing can read or write them.",
        "Start the brokers that hold the replicas; a leader is elected as soon as an in-sync replica is back.",
        _RECORDS,
    ),
    FindingId.GROUP_COORDINATOR_UNAVAILABLE: Kind(
        "error",
        "Consumer groups have no coordinator: their consumers wait forever without an error.",
        "Restore the leaders of __consumer_offsets: start the brokers that hold its replicas with their old IDs, or "
        "move the replicas to registered brokers with kafka-reassign-partitions.sh.",
        _POSITIONS,
    ),
    FindingId.TRANSACTION_COORDINATOR_UNAVAILABLE: Kind(
        "error",
        "Transactional producers have no coordinator: they can neither start nor commit transactions.",
        "Restore the leaders of __transaction_state: start the brokers that hold its replicas with their old IDs, "
        "or move the replicas to registered brokers with kafka-reassign-partitions.sh.",
        _TRANSACTIONS,
    ),
    FindingId.BELOW_MIN_INSYNC: Kind(
        "error",
        "Partitions have fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused.",
        "Start the brokers of the out-of-sync replicas, and find in their logs why they lag.",
        "Lowering min.insync.replicas lets writes through, and records are lost when the only replica is lost.",
    ),
    FindingId.UNDER_REPLICATED: Kind(
        "warning",
        "Partitions are under-replicated: some of their replicas are not in sync.",
        "Find in the logs of these brokers why the replicas lag or are down.",
    ),
    FindingId.PARTITION_UNREADABLE: Kind(
        "error",
        "A partition cannot be read, even without a consumer group.",
        "Check the operation Read on the topic, the leader of the partition, and its log.",
    ),
    FindingId.TOPIC_MISSING: Kind(
        "error",
        "A named topic does not exist.",
        "Correct the name, or create the topic.",
    ),
    FindingId.TOPIC_RECREATED: Kind(
        "error",
        "A topic was deleted and recreated: its offsets now name other records.",
        "Find out who recreated it. Decide what to do about the records of the old topic before anything resumes from "
        "old offsets.",
    ),
    FindingId.SOURCE_TRUNCATED: Kind(
        "error",
        "A source log lost records that a mirror has copied, under the same topic ID.",
        "Compare both topics, and decide with --on-data-loss of the mirror.",
    ),
    FindingId.TARGET_DELETED: Kind(
        "error",
        "A target topic of a mirror was deleted, with the copies.",
        "Find out who deleted it, and decide with --on-target-loss of the mirror.",
    ),
    FindingId.TARGET_RECREATED: Kind(
        "error",
        "A target topic of a mirror was deleted and recreated, without the copies.",
        "Find out who recreated it, and decide with --on-target-loss of the mirror.",
    ),
    FindingId.TARGET_TRUNCATED: Kind(
        "error",
        "A target log of a mirror ends before the last copy.",
        "Find out what happened to the target, and decide with --on-target-loss of the mirror.",
    ),
    FindingId.TARGET_DIVERGED: Kind(
        "error",
        "A target log of a mirror was truncated before the last copy, and has other records there now.",
        "Find out what happened to the target, and decide with --on-target-loss of the mirror.",
    ),
    FindingId.CLUSTER_CHANGED: Kind(
        "error",
        "The bootstrap servers belong to another cluster than in the earlier report.",
        "Correct the bootstrap servers, or discard the earlier report.",
    ),
    FindingId.SAME_CLUSTER: Kind(
        "error",
        "Source and target are the same cluster, and topics have the same names: a mirror would copy its own output.",
        "Correct the bootstrap servers of one side, or rename the topics.",
    ),
    FindingId.OPERATION_DENIED: Kind(
        "error",
        "This user lacks an operation that reading or writing requires.",
        "Grant the operation with kafka-acls.sh, or log in as another user.",
    ),
    FindingId.OPERATION_MISSING: Kind(
        "warning",
        "This user lacks an operation that a mirror requires for some of its features.",
        "Grant the operation with kafka-acls.sh, or do without the feature that the message names.",
    ),
    FindingId.GROUP_OVERTAKEN: Kind(
        "error",
        "Kafka has deleted records that a consumer group has not read.",
        "Resend or restore the range from another copy, such as an archive, and raise retention.ms or "
        "retention.bytes. The group continues where its auto.offset.reset says.",
    ),
    FindingId.GROUP_BEYOND_END: Kind(
        "error",
        "The committed offset of a consumer group is after the end of a partition, which has lost records.",
        "Find out why the log is shorter: an unclean leader election, a replaced disk, or a recreated topic. Reset the "
        "offsets of the group before the log grows beyond them, or the group skips records; until then it continues "
        "where its auto.offset.reset says.",
    ),
    FindingId.RETENTION_NEAR: Kind(
        "warning",
        "Kafka will soon delete records that a consumer group has not read.",
        "Find out why the group lags, and raise retention.ms or retention.bytes until it has caught up.",
    ),
    FindingId.CLOCK_DIFFERS: Kind(
        "warning",
        "The clock of a broker and the clock of this machine differ.",
        "Synchronize the clocks (chronyc tracking shows the offset). Until then, lag in seconds, time ranges and "
        "retention are wrong.",
    ),
    FindingId.TIMESTAMP_IN_FUTURE: Kind(
        "warning",
        "Records have timestamps in the future. Time-based retention keeps their segments too long.",
        "Correct the clocks of the producers.",
    ),
    FindingId.TIMESTAMP_TYPE_DIFFERS: Kind(
        "warning",
        "The target replaces timestamps with the append time (message.timestamp.type=LogAppendTime); the source does "
        "not.",
        "Set message.timestamp.type=CreateTime on the topic of the target.",
    ),
    FindingId.TIMESTAMP_REFUSED: Kind(
        "warning",
        "The target refuses records as old as those of the source.",
        "Raise message.timestamp.before.max.ms on the topic of the target to the retention of the source or more.",
    ),
    FindingId.MESSAGE_TOO_LARGE: Kind(
        "warning",
        "The source accepts larger messages than the target: a copy stops at the first message that is too large.",
        "Raise max.message.bytes on the topic of the target (message.max.bytes on its brokers) to that of the source.",
    ),
    FindingId.REQUEST_TOO_LARGE: Kind(
        "error",
        "A message of the maximum size does not fit into a request (socket.request.max.bytes).",
        "Raise socket.request.max.bytes on the brokers, or lower max.message.bytes on the topic.",
    ),
    FindingId.REPLICA_FETCH_SMALL: Kind(
        "note",
        "Messages may be larger than replica.fetch.max.bytes: replicas then fetch one batch per request, slowly.",
        "Raise replica.fetch.max.bytes on the brokers to max.message.bytes or more.",
    ),
    FindingId.UNCLEAN_ELECTION: Kind(
        "warning",
        "Unclean leader election is enabled: an out-of-sync replica may become leader, acknowledged records can be "
        "lost, and offsets then name other records.",
        "Set unclean.leader.election.enable=false.",
    ),
    FindingId.MIN_INSYNC_ONE: Kind(
        "warning",
        "Writes with acks=all are acknowledged when only one replica is in sync, although there are three or more.",
        "Set min.insync.replicas=2.",
    ),
    FindingId.SINGLE_REPLICA: Kind(
        "warning",
        "Partitions have one replica, although the cluster has several brokers: they go offline with their broker.",
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
        "The target refuses the transaction timeout of Gapless, so its producers cannot start.",
        "Raise transaction.max.timeout.ms on the brokers.",
    ),
    FindingId.OFFSETS_EXPIRE: Kind(
        "warning",
        "Kafka deletes the committed offsets of a consumer group without members within a day.",
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
        "Replace the certificate before that date.",
    ),
    FindingId.CERTIFICATE_REFUSED: Kind(
        "error",
        "A broker's certificate is not trusted.",
        "Give the CA certificates that verify the brokers (caFile), or correct the names in the broker's certificate.",
    ),
    FindingId.GAP_TOPIC_NOT_COMPACTED: Kind(
        "error",
        "The topic with gap records is not compacted: gap records expire, and the gaps are forgotten.",
        "Set cleanup.policy=compact on the topic, and run gapless audit to find the missing events.",
    ),
    FindingId.CONTROL_TOPIC_NOT_COMPACTED: Kind(
        "error",
        "The control topic of a mirror is not compacted: Kafka deletes its positions, and the mirror refuses to start.",
        "Set cleanup.policy=compact on the topic.",
        "Deleting the control topic destroys the mirror's positions: it then copies all records again.",
    ),
    FindingId.LINK_FAULT: Kind(
        "error",
        "This machine cannot send over the link.",
        "Follow the message; gapless link preflight shows the details.",
    ),
    FindingId.TOPIC_LEFT_OUT: Kind(
        "note",
        "The mirror does not copy a topic, because of its rules against loops, its excluded topics, or because the "
        "topic is internal.",
        "Nothing, if this is intended. Otherwise correct the selection or the names of the mirror.",
    ),
    FindingId.NOT_CHECKED: Kind(
        "note",
        "A check could not be made.",
        "Grant the operation that the message names and run again, or check it in another way.",
    ),
}


def finding(  # noqa: PLR0913 -- the fields of a finding
    kind: FindingId, side: Side, message: str, *, where: str = "", action: str = "", danger: str | None = None
) -> DoctorFinding:
    """Return a finding with the severity of its kind; `action` and `danger` replace those of the table."""
    defaults = KINDS[kind]
    return DoctorFinding(
        id=str(kind),
        severity=defaults.severity,
        side=side,
        where=where,
        message=message,
        action=action or defaults.action,
        danger=defaults.danger if danger is None else danger,
    )
