"""Owns what this user may not do and would have to, per operation of Kafka's access control."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.doctor.findings.places import counted, names
from gapless_kafka.doctor.kinds import FindingId, finding
from gapless_kafka.doctor.observed import Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gapless_api.wire.doctor_report import DoctorFinding
    from gapless_kafka.doctor.observed import Cluster


class _Need(NamedTuple):
    operation: str
    """As Kafka's client names it."""
    shown: str
    """As kafka-acls.sh names it."""
    kind: FindingId
    without: str
    """What does not work without it."""


_READING = (
    _Need("READ", "Read", FindingId.OPERATION_DENIED, "records cannot be read"),
    _Need("DESCRIBE", "Describe", FindingId.OPERATION_DENIED, "partitions and offsets are not shown"),
    _Need(
        "DESCRIBE_CONFIGS",
        "DescribeConfigs",
        FindingId.OPERATION_MISSING,
        "settings such as retention cannot be read, so topics are not created alike and drift is not seen",
    ),
)
_WRITING = (
    _Need("WRITE", "Write", FindingId.OPERATION_DENIED, "records cannot be written"),
    _Need("DESCRIBE", "Describe", FindingId.OPERATION_DENIED, "partitions and offsets are not shown"),
    _Need("DESCRIBE_CONFIGS", "DescribeConfigs", FindingId.OPERATION_MISSING, "drift of settings is not seen"),
    _Need("ALTER_CONFIGS", "AlterConfigs", FindingId.OPERATION_MISSING, "settings are not brought in line"),
    _Need("ALTER", "Alter", FindingId.OPERATION_MISSING, "partitions are not added when the source grows"),
)


_USES = frozenset({"WRITE", "ALL"})
_ADMINISTRATION = frozenset({"ALTER", "CLUSTER_ACTION"})
"""What everyone has where there is no access control, and super users; librdkafka then returns no rules."""


def right_findings(cluster: Cluster, *, to_create: Collection[str] = ()) -> Iterator[DoctorFinding]:
    """The operations that this user lacks.

    Args:
        cluster: with its side: topics of the source are read, those of the target are written.
        to_create: topics of the target that do not exist yet.
    """
    needs = _WRITING if cluster.side == "target" else _READING
    for need in needs:
        lacking = [
            name
            for name, details in cluster.topics.items()
            if not isinstance(details.operations, Unknown) and need.operation not in details.operations
        ]
        if lacking:
            yield _lack(cluster, need, lacking)
    blind = [name for name, details in cluster.topics.items() if isinstance(details.operations, Unknown)]
    if blind:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"Which operations this user may use on {counted(len(blind), 'topic')} was not checked: the brokers do not "
            f"tell.",
            where=names(blind),
        )
    if cluster.side == "target":
        yield from _of_cluster(cluster, sorted(to_create))


def transaction_findings(cluster: Cluster, transactional_ids: Sequence[str]) -> Iterator[DoctorFinding]:
    """Whether this user may use transactional IDs, from the access rules: to try it would fence a running producer."""
    rules = cluster.transactional_rules
    operations = frozenset() if isinstance(cluster.operations, Unknown) else cluster.operations
    if rules is None or (not rules and operations >= _ADMINISTRATION):
        return
    reason = ""
    if isinstance(rules, Unknown):
        reason = f"the access rules are not shown: {rules.reason}"
    elif not transactional_ids:
        reason = "none was named, with --mirror or --transactional-ids"
    elif not cluster.principal:
        reason = "without a SASL user name, only the brokers know who this user is"
    if reason or isinstance(rules, Unknown):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"Whether this user may use transactional IDs was not checked: {reason}.",
            action="Grant this user the operation Describe on the cluster, or see kafka-acls.sh --list.",
        )
        return
    refused = []
    for name in transactional_ids:
        about = [rule for rule in rules if rule.operation in _USES and rule.matches(cluster.principal, name)]
        if not any(rule.allows for rule in about) or not all(rule.allows for rule in about):
            refused.append(name)
    if refused:
        yield finding(
            FindingId.OPERATION_MISSING,
            cluster.side,
            f"No access rule allows {cluster.principal} the operation Write on "
            f"{counted(len(refused), 'transactional ID')}, or one denies it: transactions are refused, unless this is "
            f"a super user or the brokers allow what no rule mentions.",
            where=names(refused),
            action=f"Grant it: kafka-acls.sh --add --allow-principal {cluster.principal} --operation Write "
            f"--operation Describe --transactional-id {min(refused)}.",
        )


def _lack(cluster: Cluster, need: _Need, topics: Sequence[str]) -> DoctorFinding:
    return finding(
        need.kind,
        cluster.side,
        f"This user lacks the operation {need.shown} on {counted(len(topics), 'topic')}: {need.without}.",
        where=names(topics),
        action=f"Grant it: kafka-acls.sh --add --allow-principal User:NAME --operation {need.shown} --topic "
        f"{min(topics)}.",
    )


def _of_cluster(cluster: Cluster, to_create: Sequence[str]) -> Iterator[DoctorFinding]:
    operations = cluster.operations
    if isinstance(operations, Unknown):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"Which operations this user may use on the cluster was not checked ({operations.reason}).",
        )
        return
    if to_create and "CREATE" not in operations:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"This user lacks the operation Create on the cluster, and {counted(len(to_create), 'topic')} must be "
            f"created; whether it may create them by name was not checked, because Kafka does not tell it of topics "
            f"that do not exist.",
            where=names(to_create),
            action="Grant Create on the topics or on the cluster, or create the topics yourself.",
        )
    writes = any(
        not isinstance(details.operations, Unknown) and "WRITE" in details.operations
        for details in cluster.topics.values()
    )
    if "IDEMPOTENT_WRITE" not in operations and not writes and cluster.topics:
        yield finding(
            FindingId.OPERATION_DENIED,
            cluster.side,
            "This user lacks IdempotentWrite on the cluster and Write on every checked topic: idempotent and "
            "transactional producers are refused.",
        )
