"""The findings about missing authorization, by operation of Kafka's ACLs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.quantities import quantity
from gapless_mirror.doctor.findings.wording import names
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import Cluster, Unknown

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding


class _Requirement(NamedTuple):
    operation: str
    """The name in Kafka's client."""
    shown: str
    """The name in kafka-acls.sh."""
    kind: FindingId
    effect: str
    """What does not work without the operation."""


_DESCRIBE = _Requirement("DESCRIBE", "Describe", FindingId.OPERATION_DENIED, "partitions and offsets cannot be read")
_READING = (
    _Requirement("READ", "Read", FindingId.OPERATION_DENIED, "records cannot be read"),
    _DESCRIBE,
    _Requirement(
        "DESCRIBE_CONFIGS",
        "DescribeConfigs",
        FindingId.OPERATION_MISSING,
        "settings cannot be read, so a mirror creates topics with default settings and detects no configuration drift",
    ),
)
_WRITING = (
    _Requirement("WRITE", "Write", FindingId.OPERATION_DENIED, "records cannot be written"),
    _DESCRIBE,
    _Requirement(
        "DESCRIBE_CONFIGS",
        "DescribeConfigs",
        FindingId.OPERATION_MISSING,
        "configuration drift is not detected",
    ),
    _Requirement("ALTER_CONFIGS", "AlterConfigs", FindingId.OPERATION_MISSING, "configuration drift is not corrected"),
    _Requirement("ALTER", "Alter", FindingId.OPERATION_MISSING, "partitions are not added when the source gets more"),
)
_WRITE_OPERATIONS = frozenset({"WRITE", "ALL"})
_ADMINISTRATION = frozenset({"ALTER", "CLUSTER_ACTION"})
"""The operations of super users, and of everyone without an authorizer; librdkafka then returns no ACLs."""


def right_findings(cluster: Cluster, *, to_create: Collection[str] = ()) -> Iterator[DoctorFinding]:
    """Yield the operations that this user lacks.

    Args:
        cluster: topics of the source are read, topics of the target are written.
        to_create: topics of the target that do not exist yet.
    """
    for requirement in _WRITING if cluster.side == "target" else _READING:
        lacking = [
            name
            for name, details in cluster.topics.items()
            if not isinstance(details.operations, Unknown) and requirement.operation not in details.operations
        ]
        if lacking:
            yield _lacking_finding(cluster, requirement, lacking)
    unchecked = [name for name, details in cluster.topics.items() if isinstance(details.operations, Unknown)]
    if unchecked:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The authorized operations of this user on {quantity(len(unchecked), 'topic')} were not checked: the "
            f"brokers do not return them.",
            where=names(unchecked),
        )
    if cluster.side == "target":
        yield from _cluster_operations(cluster, sorted(to_create))


def transaction_findings(cluster: Cluster, transactional_ids: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield transactional IDs that this user may not use, from the ACLs: to try one would fence a running producer."""
    rules = cluster.transactional_rules
    operations = frozenset() if isinstance(cluster.operations, Unknown) else cluster.operations
    if rules is None or (not rules and operations >= _ADMINISTRATION):
        return
    reason = ""
    if isinstance(rules, Unknown):
        reason = f"the ACLs cannot be read: {rules.reason}"
    elif not transactional_ids:
        reason = "none was named with --mirror or --transactional-ids"
    elif not cluster.principal:
        reason = "without saslUsername, only the brokers know the principal of this user"
    if reason or isinstance(rules, Unknown):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The authorization of this user for transactional IDs was not checked: {reason}.",
            action="Grant this user the operation Describe on the cluster, or check kafka-acls.sh --list.",
        )
        return
    refused = []
    for name in transactional_ids:
        matching = [
            rule for rule in rules if rule.operation in _WRITE_OPERATIONS and rule.matches(cluster.principal, name)
        ]
        if not matching or not all(rule.allows for rule in matching):
            refused.append(name)
    if refused:
        yield finding(
            FindingId.OPERATION_MISSING,
            cluster.side,
            f"No ACL allows {cluster.principal} the operation Write on {quantity(len(refused), 'transactional ID')}, "
            f"or an ACL denies it: transactions are refused, unless this is a super user or "
            f"allow.everyone.if.no.acl.found=true.",
            where=names(refused),
            action=f"Grant it: kafka-acls.sh --add --allow-principal {cluster.principal} --operation Write "
            f"--operation Describe --transactional-id {min(refused)}.",
        )


def _lacking_finding(cluster: Cluster, requirement: _Requirement, topics: Sequence[str]) -> DoctorFinding:
    return finding(
        requirement.kind,
        cluster.side,
        f"This user lacks the operation {requirement.shown} on {quantity(len(topics), 'topic')}: {requirement.effect}.",
        where=names(topics),
        action=f"Grant it: kafka-acls.sh --add --allow-principal User:NAME --operation {requirement.shown} --topic "
        f"{min(topics)}.",
    )


def _cluster_operations(cluster: Cluster, to_create: Sequence[str]) -> Iterator[DoctorFinding]:
    operations = cluster.operations
    if isinstance(operations, Unknown):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The authorized operations of this user on the cluster were not checked: {operations.reason}.",
        )
        return
    if to_create and "CREATE" not in operations:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"This user lacks the operation Create on the cluster, and {quantity(len(to_create), 'topic')} must be "
            f"created; ACLs on their names were not checked, because Kafka does not report operations on topics that "
            f"do not exist.",
            where=names(to_create),
            action="Grant this user the operation Create on the topics or on the cluster, or create the topics with "
            "kafka-topics.sh.",
        )
    may_write = any(
        not isinstance(details.operations, Unknown) and "WRITE" in details.operations
        for details in cluster.topics.values()
    )
    if "IDEMPOTENT_WRITE" not in operations and not may_write and cluster.topics:
        yield finding(
            FindingId.OPERATION_DENIED,
            cluster.side,
            "This user lacks the operations IdempotentWrite on the cluster and Write on every checked topic: "
            "idempotent and transactional producers are refused.",
        )
