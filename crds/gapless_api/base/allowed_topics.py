"""The list of topics that a Kafka connection allows, and the error for any other topic.

Must not know who reads, or where the list comes from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import first_of
from gapless_api.base.settings import Setting

PATTERN = r"^([-._a-zA-Z0-9]+[*]?|[*])$"
"""One entry: a topic name, or a prefix that ends with ``*``; ``*`` alone allows every topic."""
_ENTRY = re.compile(PATTERN.replace("$", r"\Z"))
_MAX_LISTED = 5


def is_listed(name: str, entries: Iterable[str]) -> bool:
    """Whether a name is one of `entries`, or begins with one of them that ends with ``*``."""
    return any(name.startswith(entry[:-1]) if entry.endswith("*") else name == entry for entry in entries)


class HiddenTopicError(ConfigurationError):
    """A topic that a prefix or a pattern has found is not allowed. The message does not name it."""


@dataclass(frozen=True, slots=True)
class AllowedTopics:
    """Topic names, and prefixes that end with ``*``."""

    entries: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> AllowedTopics:
        """Parse a list such as ``transfer,orders-*``. Raises ValueError with the end of the sentence "it must be …"."""
        entries = tuple(entry.strip() for entry in text.split(","))
        if not all(_ENTRY.match(entry) for entry in entries):
            raise ValueError("a comma-separated list of topic names; a prefix ends with *")
        return cls(entries)

    def __str__(self) -> str:
        return ",".join(self.entries)

    def allow(self, topic: str) -> bool:
        """Whether `topic`, as Kafka names it, may be used."""
        return is_listed(topic, self.entries)

    def check(self, topics: Iterable[str], *, what: str) -> None:
        """Check that all `topics` may be used.

        Args:
            topics: as Kafka names them.
            what: who requests them, as the subject of the message, such as ``The bundle``.

        Raises:
            ConfigurationError: a topic is not allowed; the message names the first.
        """
        refused = sorted({topic for topic in topics if not self.allow(topic)})
        if not refused:
            return
        raise ConfigurationError(
            f"{what} requests the topic {refused_phrase(refused, self.entries)}; ask the platform team to add it to "
            f"allowedTopics of the KafkaConnection."
        )

    def check_selected(self, topics: Iterable[str], named: Collection[str], *, what: str) -> None:
        """Check that all topics of a selection may be used.

        Whoever may select topics need not be allowed to know which ones there are, so only those are named that the
        selection names itself.

        Args:
            topics: as Kafka names them.
            named: those that are selected by name.
            what: who selects them, as the subject of the message, such as ``The archive``.

        Raises:
            HiddenTopicError: a topic is not allowed that a prefix or a pattern has found.
            ConfigurationError: a topic is not allowed that is selected by name; the message names the first.
        """
        refused = {topic for topic in topics if not self.allow(topic)}
        self.check(refused.intersection(named), what=what)
        if refused:
            raise HiddenTopicError(
                f"{what} requests topics by a prefix or a pattern that may not be used (they are not named here), and "
                f"{_only(self.entries)}; select others, or ask the platform team to add them to allowedTopics of the "
                f"KafkaConnection."
            )


def refused_phrase(refused: Sequence[str], entries: tuple[str, ...]) -> str:
    """Return the part of a message that names the first of some refused names, and the allowed ones."""
    others = "" if len(refused) == 1 else f" and {len(refused) - 1:,} more"
    return f"{refused[0]}{others}, and {_only(entries)}"


def _only(entries: tuple[str, ...]) -> str:
    return f"only {first_of(entries, _MAX_LISTED) or 'none'} may be used"


ALLOWED_TOPICS = Setting(
    "allowedTopics",
    "Topics that may be read, by name or as a prefix with *; all others are refused. On the command line it "
    "overrides files and environment variables.",
    parse=AllowedTopics.parse,
    metavar="TOPIC,…",
    shown_default="all",
    group="Kafka",
)
