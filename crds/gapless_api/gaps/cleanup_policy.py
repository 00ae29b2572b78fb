"""Owns what the cleanup.policy of a gaps topic means for the windows of which no record tells.

Must not know who reads the policy, nor records. A detector writes the record of a window again only while it remembers
the window, and never takes one back. So a topic keeps the latest record of every window only if Kafka deletes nothing
but earlier records of the same key: with ``cleanup.policy=compact``, and no other word beside it.
"""

from __future__ import annotations

COMPACT = "compact"
UNKNOWN = "unknown"
"""The policy of a topic whose configuration could not be read."""
KEEPS_ALL = {"keeps_all": "true"}
"""What the source of a bundle has that was made of the latest record of every window: its topic has kept them all, and
all of them could be read."""


def normal_policy(text: str) -> str:
    """A value of ``cleanup.policy`` with its words in one order."""
    return ",".join(sorted(word.strip() for word in text.split(",") if word.strip())) or "none"


def warning(topic: str, policy: str) -> str:
    """What a person must know who reads a topic that may have lost records; empty for a compacted one."""
    if policy == COMPACT:
        return ""
    if policy == UNKNOWN:
        problem = f"The cleanup.policy of topic {topic} could not be read"
        remedy = "allow DescribeConfigs on the topic, see that the policy is compact"
    else:
        problem = f"The cleanup.policy of topic {topic} is {policy} and not compact"
        remedy = "set it to compact"
    return (
        f"{problem}: records of gaps may have expired, so what no record tells of is unknown and not closed; {remedy}, "
        f"and find out with gapless audit what has arrived."
    )


def why_unknown(topic: str, policy: str) -> str:
    """Why offsets are unknown that a record told of before, and what to do."""
    return warning(topic, policy) or (
        f"No record of topic {topic} tells of them, or none does any more; find out with gapless audit what has "
        f"arrived."
    )
