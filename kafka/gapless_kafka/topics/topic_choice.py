"""Owns which topics of a cluster a command works on: by name, prefix or pattern, without those that are excluded.

Internal topics, of Kafka (``__…``) and of Gapless (``_gapless_…``), are chosen by their exact names only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_kafka.access.connection import KafkaConnection

_INTERNAL = ("__", "_gapless_")
_NAME = re.compile(r"[-._a-zA-Z0-9]{1,249}")


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """What a user chose."""

    names: tuple[str, ...] = ()
    """Topics that must exist."""
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """It must match the complete name."""
    excluded: tuple[re.Pattern[str], ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether topics that are created later cannot belong to the choice."""
        return not self.prefixes and self.pattern is None

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """The topics to work on, sorted: all names, and those of `existing` that fit."""
        return sorted({*self.names, *(topic for topic in existing if self._fits(topic))} - self._refused(self.names))

    def _fits(self, topic: str) -> bool:
        fits = topic.startswith(self.prefixes) if self.prefixes else False
        fits = fits or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)
        return fits and not topic.startswith(_INTERNAL) and not self._refused([topic])

    def _refused(self, topics: Iterable[str]) -> set[str]:
        return {topic for topic in topics if any(pattern.fullmatch(topic) for pattern in self.excluded)}


def chosen_topics(connection: KafkaConnection, choice: TopicChoice, *, timeout_seconds: float) -> list[str]:
    """The topics to work on; Kafka is asked for its topics only when the choice needs them.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
    """
    return choice.chosen(() if choice.is_fixed else existing_topics(connection, timeout_seconds=timeout_seconds))


def existing_topics(connection: KafkaConnection, *, timeout_seconds: float) -> list[str]:
    """All topics that Kafka shows us. Raises SourceUnreachableError like `chosen_topics`."""
    from gapless_kafka.topics.leaderless import leaderless_by_topic  # noqa: PLC0415 -- settings need no client

    return list(leaderless_by_topic(connection, timeout_seconds=timeout_seconds))


def _names(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found or not all(_NAME.fullmatch(name) for name in found):
        raise ValueError("names of topics separated by commas")
    return found


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None


def _excluded(text: str) -> tuple[re.Pattern[str], ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(re.fullmatch(r"[-._a-zA-Z0-9*]+", word) for word in words):
        raise ValueError("names of topics separated by commas, with * for any characters")
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
        own=True,
        group=_GROUP,
    ),
    Setting(
        "topicPrefix",
        "Also all topics that begin so; several prefixes are separated by commas. Topics that are created later are "
        "found within a minute.",
        parse=_names,
        default=(),
        metavar="PREFIX,…",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "topicPattern",
        "Also all topics whose complete name matches this regular expression. Internal topics (__… of Kafka and "
        "_gapless_… of Gapless) are read only when topics names them.",
        parse=_pattern,
        metavar="REGEX",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "exclude",
        "Topics that are left out, separated by commas; * stands for any characters.",
        parse=_excluded,
        default=(),
        metavar="TOPIC,…",
        own=True,
        group=_GROUP,
    ),
)
"""The settings of a command that works on many topics."""


def choice_from(values: Mapping[str, Any]) -> TopicChoice:
    """The choice that a command's `TOPIC_CHOICE_SETTINGS` describe.

    Raises:
        ConfigurationError: nothing is chosen.
    """
    choice = TopicChoice(values["topics"], values["topicPrefix"], values["topicPattern"], values["exclude"])
    if not choice.names and choice.is_fixed:
        raise ConfigurationError("No topics are chosen; give topics, topicPrefix or topicPattern.")
    return choice
