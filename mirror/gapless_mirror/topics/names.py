"""The names of the topics that a mirror writes: the rename rule, what Kafka allows, and collisions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError

CONTROL_PREFIX = "_gapless_"
"""The prefix of the names of control topics of Gapless."""
SAME_NAME = "{topic}"
_MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_KNOWN = frozenset({"{topic}", "{source}"})
_SEPARATED = re.compile(r"\{source\}[^{}]+\{topic\}|\{topic\}[^{}]+\{source\}")
_PARTS = {"{source}": ".+?", "{topic}": "(?P<topic>.+)"}


class TopicNames(NamedTuple):
    """The target names of source topics."""

    targets: dict[str, str]
    """By source topic."""
    warnings: tuple[str, ...]
    """A sentence for each."""


@dataclass(frozen=True, slots=True)
class RenameRule:
    """The rule for the name of a target topic."""

    template: str = SAME_NAME
    """With ``{topic}``, and perhaps ``{source}``."""
    source_name: str = ""
    """The value of ``{source}``."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError if the rule needs the name of the source and there is none."""
        if "{source}" in self.template and not self.source_name:
            raise ConfigurationError(
                f"The rule rename={self.template} uses {{source}}, and the source has no name; give sourceName."
            )

    @property
    def names_its_source(self) -> bool:
        """Whether the name of a target topic shows its source: ``{source}``, and text between it and ``{topic}``."""
        return _SEPARATED.search(self.template) is not None

    def target(self, topic: str) -> str:
        """Return the target name of a source topic, without checking that Kafka allows it."""
        return self.template.replace("{source}", self.source_name).replace("{topic}", topic)

    def original(self, target: str) -> str | None:
        """Return the source topic with this target name; ``None`` if the rule makes no such name."""
        return _original(self.template.replace("{source}", self.source_name), target)

    def has_passed(self, topic: str) -> bool:
        """Whether the name says that the topic, or one that it was copied from, was copied from this source.

        Always false for rules whose names do not show the source.
        """
        if not self.names_its_source:
            return False
        rest: str | None = topic
        while rest is not None and self.original(rest) is None:
            rest = _original(self.template, rest)
        return rest is not None


def _original(template: str, target: str) -> str | None:
    """Return what stands for ``{topic}`` in a name; ``{source}`` stands for any name, the shortest one."""
    parts = re.split(r"(\{source\}|\{topic\})", template)
    pattern = "".join(_PARTS.get(part, re.escape(part)) for part in parts)
    found = re.fullmatch(pattern, target)
    return found["topic"] if found is not None else None


def rename_template(text: str) -> str:
    """Read the setting `rename`. Raises ValueError with the completion of "it must be …"."""
    rest = _PLACEHOLDER.sub("", text)
    placeholders = _PLACEHOLDER.findall(text)
    legal = not rest or _LEGAL.fullmatch(rest)
    if not legal or placeholders.count("{topic}") != 1 or not _KNOWN.issuperset(placeholders):
        raise ValueError(
            "letters, digits, dots, underscores and dashes with {topic} once and perhaps {source}, such as "
            "{source}.{topic}"
        )
    return text


def topic_names(topics: Iterable[str], rule: RenameRule) -> TopicNames:
    """Name the target of each source topic.

    Args:
        topics: of the source.
        rule: to rename them.

    Raises:
        ConfigurationError: Kafka does not allow a name, or two topics would get the same one.
    """
    targets: dict[str, str] = {}
    sources: dict[str, str] = {}
    for topic in sorted(set(topics)):
        target = rule.target(topic)
        _check(topic, target)
        if target in sources:  # pragma: no cover -- a rule with {topic} once maps two names to two names
            raise ConfigurationError(
                f"The source topics {sources[target]} and {topic} would both become {target}; change rename."
            )
        sources[target] = topic
        targets[topic] = target
    return TopicNames(targets, tuple(_collisions(targets.values())))


def _check(topic: str, target: str) -> None:
    advice = "change rename, or leave the topic out with exclude"
    if len(target) > _MAX_LENGTH:
        raise ConfigurationError(
            f"The topic {topic} would be called {target[:60]}… in the target, which has {len(target)} characters; "
            f"Kafka allows {_MAX_LENGTH}. Use a shorter prefix in rename, or leave the topic out with exclude."
        )
    if not _LEGAL.fullmatch(target) or target in {".", ".."}:
        raise ConfigurationError(
            f"The topic {topic} would be called {target!r} in the target, which Kafka does not allow; {advice}."
        )
    if target.startswith(CONTROL_PREFIX):
        raise ConfigurationError(
            f"The topic {topic} would be called {target} in the target; names that begin with {CONTROL_PREFIX} belong "
            f"to control topics; {advice}."
        )


def _collisions(targets: Iterable[str]) -> Iterable[str]:
    """Warn about names that differ only in dots and underscores: Kafka's metrics replace dots by underscores."""
    by_metric: dict[str, str] = {}
    for target in sorted(targets):
        other = by_metric.setdefault(target.replace(".", "_"), target)
        if other != target:
            yield (
                f"The topics {other} and {target} differ only in dots and underscores, which Kafka's metrics do not "
                f"distinguish; change rename if you watch these metrics."
            )
