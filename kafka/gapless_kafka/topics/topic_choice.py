"""Which topics of a cluster a command selects: by name, prefix or pattern, without excluded ones.

Internal topics, of Kafka (``__…``) and of Gapless (``_gapless_…``), are selected by their exact names only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import names, regular_expression
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection

INTERNAL = ("__", "_gapless_")
"""The prefixes of internal topics."""
_SHOWN = 200
"""Characters of a pattern in a message."""
_NAME = re.compile(r"[-._a-zA-Z0-9]{1,249}")


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics that a user selects."""

    names: tuple[str, ...] = ()
    """Topics that must exist."""
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """Matches the complete name."""
    excluded: tuple[re.Pattern[str], ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether topics that are created later can never be selected."""
        return not self.prefixes and self.pattern is None

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """Return the selected topics, sorted: all `names`, and the topics of `existing` that match."""
        selected = {*self.names, *(topic for topic in existing if self._matches(topic))}
        return sorted(topic for topic in selected if not self._is_excluded(topic))

    def unmatched(self, existing: Collection[str]) -> list[str]:
        """Return a sentence for each prefix, and for the pattern, that selects none of the topics of `existing`."""
        visible = [topic for topic in existing if not topic.startswith(INTERNAL) and not self._is_excluded(topic)]
        missed = [
            f"topicPrefix={prefix}"
            for prefix in self.prefixes
            if not any(topic.startswith(prefix) for topic in visible)
        ]
        if self.pattern is not None and not any(self.pattern.fullmatch(topic) for topic in visible):
            shown = self.pattern.pattern
            missed.append(f"topicPattern={shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}")
        return [f"No topic of the source matches {each}; correct it, or wait for the topics." for each in missed]

    def _matches(self, topic: str) -> bool:
        if topic.startswith(INTERNAL):
            return False
        return topic.startswith(self.prefixes) or (self.pattern is not None and bool(self.pattern.fullmatch(topic)))

    def _is_excluded(self, topic: str) -> bool:
        return any(pattern.fullmatch(topic) for pattern in self.excluded)


def chosen_topics(connection: KafkaConnection, choice: TopicChoice, *, timeout_seconds: float) -> list[str]:
    """Return the selected topics; Kafka's topics are listed only when the choice needs them.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
    """
    return choice.chosen(() if choice.is_fixed else existing_topics(connection, timeout_seconds=timeout_seconds))


def existing_topics(connection: KafkaConnection, *, timeout_seconds: float) -> list[str]:
    """Return all visible topics. Raises SourceUnreachableError like `chosen_topics`."""
    from gapless_kafka.topics.leaderless import leaderless_by_topic  # noqa: PLC0415 -- settings need no client

    return list(leaderless_by_topic(connection, timeout_seconds=timeout_seconds))


def _names(text: str) -> tuple[str, ...]:
    expected = "topic names separated by commas"
    found = names(expected)(text)
    if not all(_NAME.fullmatch(name) for name in found):
        raise ValueError(expected)
    return found


def _excluded(text: str) -> tuple[re.Pattern[str], ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(re.fullmatch(r"[-._a-zA-Z0-9*]+", word) for word in words):
        raise ValueError("topic names separated by commas, with * for any characters")
    return tuple(re.compile(".*".join(map(re.escape, word.split("*")))) for word in words)


_GROUP = "What to read"
TOPIC_CHOICE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "topics",
        "Topics, separated by commas; each must exist.",
        parse=_names,
        default=(),
        aliases=("topic",),
        metavar="TOPIC,…",
        group=_GROUP,
    ),
    Setting(
        "topicPrefix",
        "Also all topics that begin with this prefix; separate several with commas. Topics that are created later are "
        "found within a minute.",
        parse=_names,
        default=(),
        metavar="PREFIX,…",
        group=_GROUP,
    ),
    Setting(
        "topicPattern",
        "Also all topics whose complete name matches this regular expression. Internal topics (__… of Kafka and "
        "_gapless_… of Gapless) are read only when topics names them.",
        parse=regular_expression,
        metavar="REGEX",
        group=_GROUP,
    ),
    Setting(
        "exclude",
        "Topics to exclude, separated by commas; * stands for any characters.",
        parse=_excluded,
        default=(),
        metavar="TOPIC,…",
        group=_GROUP,
    ),
)
"""The settings of a command that works on many topics."""


def choice_from(values: Mapping[str, Any]) -> TopicChoice:
    """Build the choice from the values of `TOPIC_CHOICE_SETTINGS`.

    Raises:
        ConfigurationError: no topics are selected.
    """
    choice = TopicChoice(values["topics"], values["topicPrefix"], values["topicPattern"], values["exclude"])
    if not choice.names and choice.is_fixed:
        raise ConfigurationError("No topics are selected; give topics, topicPrefix or topicPattern.")
    return choice
