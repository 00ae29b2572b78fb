"""The effect of the cleanup.policy of a gaps topic on windows without a record.

Must not know who reads the policy, or records. A detector writes the record of a window again only while it remembers
the window, and never deletes one. So a topic keeps the latest record of every window only if Kafka deletes nothing but
older records of the same key: with ``cleanup.policy=compact`` alone.
"""

from __future__ import annotations

COMPACT = "compact"
UNKNOWN = "unknown"
"""The policy of a topic whose configuration could not be read."""
KEEPS_ALL = {"keeps_all": "true"}
"""The member of a bundle's source that says that its topic keeps the latest record of every window, and that all could
be read."""


def normal_policy(text: str) -> str:
    """Return a value of ``cleanup.policy`` with its words sorted."""
    return ",".join(sorted(word.strip() for word in text.split(",") if word.strip())) or "none"


def warning(topic: str, policy: str) -> str:
    """Return the warning for a topic that may have lost records; empty for a compacted topic."""
    if policy == COMPACT:
        return ""
    if policy == UNKNOWN:
        problem = f"The cleanup.policy of topic {topic} could not be read"
        remedy = "allow DescribeConfigs on the topic, make sure that the policy is compact"
    else:
        problem = f"The cleanup.policy of topic {topic} is {policy} and not compact"
        remedy = "set it to compact"
    return (
        f"{problem}: records of gaps may have expired, so offsets without a record are unknown and not closed; "
        f"{remedy}, and run gapless audit to find out what has arrived."
    )


def why_unknown(topic: str, policy: str) -> str:
    """Return why offsets are unknown that an earlier record listed, and what to do."""
    return warning(topic, policy) or (
        f"Topic {topic} has no record of them, or no longer has one; run gapless audit to find out what has arrived."
    )
