"""Owns which topics a Kafka connection opens, and the sentence that refuses the others.

Must not know who reads, nor where the list is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable

PATTERN = r"^([-._a-zA-Z0-9]+[*]?|[*])$"
"""Of one entry: a topic's name, or a prefix that ends with ``*``; ``*`` alone for every topic."""
_ENTRY = re.compile(PATTERN.replace("$", r"\Z"))


@dataclass(frozen=True, slots=True)
class AllowedTopics:
    """Names of topics, and prefixes that end with ``*``."""

    entries: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> AllowedTopics:
        """Read a list as ``transfer,orders-*``. Raises ValueError with the end of the sentence "it must be …"."""
        entries = tuple(entry.strip() for entry in text.split(","))
        if not all(_ENTRY.match(entry) for entry in entries):
            raise ValueError("names of topics separated by commas; a prefix ends with *")
        return cls(entries)

    def __str__(self) -> str:
        return ",".join(self.entries)

    def allow(self, topic: str) -> bool:
        """Whether `topic`, as Kafka names it, may be used."""
        return any(topic.startswith(e[:-1]) if e.endswith("*") else topic == e for e in self.entries)

    def check(self, topics: Iterable[str], *, what: str) -> None:
        """Make sure that all `topics` may be used.

        Args:
            topics: as Kafka names them.
            what: who requests them, as the sentence begins, such as ``The bundle``.

        Raises:
            ConfigurationError: some may not; the sentence names the first.
        """
        refused = sorted({topic for topic in topics if not self.allow(topic)})
        if not refused:
            return
        others = "" if len(refused) == 1 else f" and {len(refused) - 1:,} more"
        raise ConfigurationError(
            f"{what} requests the topic {refused[0]}{others}, and only {_shown(self.entries)} may be used; ask the "
            f"platform team to add it to allowedTopics of the KafkaConnection."
        )


def _shown(entries: tuple[str, ...], most: int = 5) -> str:
    listed = ", ".join(entries[:most])
    return listed if len(entries) <= most else f"{listed} and {len(entries) - most:,} more"


ALLOWED_TOPICS = Setting(
    "allowedTopics",
    "Topics that may be read, by name or as a prefix with *; anything else is refused. On the command line it "
    "overrides every file and variable.",
    parse=AllowedTopics.parse,
    metavar="TOPIC,…",
    shown_default="all",
    own=True,
    group="Kafka",
)
