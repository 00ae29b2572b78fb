"""How the topic keeper of a mirror, and the check for refused topics, are built from settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.topics.keeper import TopicKeeper
from gapless_mirror.topics.names import RenameRule

if TYPE_CHECKING:
    from gapless_api.base.allowed_topics import AllowedTopics
    from gapless_kafka.access.connection import KafkaConnection


def rename_rule(values: Mapping[str, Any]) -> RenameRule:
    """Return the rename rule. Raises ConfigurationError when it needs a source name and there is none."""
    return RenameRule(values["rename"], values["sourceName"])


def refusals(values: Mapping[str, Any], otherwise: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that raises ConfigurationError for a source topic that must not be copied.

    Args:
        values: of the settings, with the allowed topics of each cluster.
        otherwise: a further check of allowed topics.
    """
    rule = rename_rule(values)
    source: AllowedTopics | None = values["sourceAllowedTopics"]
    target: AllowedTopics | None = values["targetAllowedTopics"]
    parking: str | None = values["parkingTopic"]
    named = frozenset(values["topics"] or ())

    def refuse(topic: str) -> None:
        if source is not None:
            source.check_selected([topic], named, what="The mirror's source")
        if target is not None:
            copy = rule.target(topic)
            target.check_selected([copy], [copy] if topic in named else [], what="The mirror's target")
        if rule.target(topic) == parking:
            raise ConfigurationError(
                f"The target topic of {topic} is the parking topic {parking}; give another parkingTopic."
            )
        otherwise(topic)

    return refuse


def topic_keeper(
    values: Mapping[str, Any],
    source: KafkaConnection,
    target: KafkaConnection,
    lost: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _missing: {},
) -> TopicKeeper:
    """Return the topic keeper. Raises ConfigurationError like `rename_rule`.

    Args:
        values: of the settings.
        source: the cluster.
        target: the cluster.
        lost: see `TopicKeeper`.
    """
    timeout = values["connectTimeout"]
    return TopicKeeper(
        TargetTopics(source, timeout_seconds=timeout),
        TargetTopics(target, timeout_seconds=timeout),
        rename_rule(values),
        creates=values.get("createTopics", True),
        replication_factor=values.get("replicationFactor") or -1,
        lost=lost,
    )
