"""Owns what the cleanup.policy of a gaps topic means for the status; must not know how it is read or compared.

Unless the policy is exactly compact, records of gaps expire: what no record tells of is unknown, and says no success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.gaps.cleanup_policy import COMPACT, UNKNOWN, warning
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import Said
from gapless_operator.common.plan import Event, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.v1alpha1.conditions import Condition


def compaction_of(policy: str | None, topic: str) -> Said:
    """What `GapTopicCompacted` says."""
    if policy is None:
        return Said(None, Reason.NOT_A_GAP_TOPIC, "The last scan was an audit.")
    if policy == COMPACT:
        return Said(True, Reason.COMPACTED, f"The cleanup.policy of topic {topic} is compact.")
    if policy == UNKNOWN:
        return Said(None, Reason.POLICY_UNKNOWN, warning(topic, policy))
    return Said(False, Reason.NOT_COMPACTED, warning(topic, policy))


def compaction_conditions(
    before: Iterable[Condition], policy: str | None, topic: str
) -> tuple[dict[ConditionType, Said], tuple[Event, ...]]:
    """The condition after a scan, and the event that tells of a new reason; nothing where there were audits only."""
    known = condition(before, ConditionType.GAP_TOPIC_COMPACTED)
    if policy is None and known is None:
        return {}, ()
    said = compaction_of(policy, topic)
    is_new = known is None or known.reason != said.reason
    events = (Event(EventType.WARNING, said.reason, said.message),) if is_new and policy not in {None, COMPACT} else ()
    return {ConditionType.GAP_TOPIC_COMPACTED: said}, events
