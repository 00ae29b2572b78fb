"""Access rules (ACLs): each is in force, or gone, on every given broker when the call returns.

Kafka answers when its controller has written a change; each broker applies it a moment later. Must not know brokers.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient

from kit.machine.processes import wait_until


def add_rule(rule: AclBinding, admins: Sequence[AdminClient]) -> None:
    """Add `rule`. `admins` are clients of one broker each."""
    admins[0].create_acls([rule])[rule].result()
    wanted = AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
    wait_until(lambda: all(_rules(wanted, admin) for admin in admins), what=f"{rule} on every broker")


def remove_rules(found: AclBindingFilter, admins: Sequence[AdminClient]) -> None:
    """Remove all rules that `found` matches. `admins` are clients of one broker each."""
    admins[0].delete_acls([found])[found].result()
    wait_until(lambda: not any(_rules(found, admin) for admin in admins), what=f"the end of {found} on every broker")


def _rules(found: AclBindingFilter, admin: AdminClient) -> list[AclBinding]:
    rules: list[AclBinding] = admin.describe_acls(found).result()
    return rules
