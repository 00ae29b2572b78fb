"""The list of consumer groups whose positions a Kafka connection lets others commit.

Must not know who commits, or where the list comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gapless_api.base.allowed_topics import is_listed
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting

PATTERN = r"^[^\x00-\x1f\x7f,]+$"
"""One entry: the name of a group, or a prefix that ends with ``*``; ``*`` alone allows every group."""
_ENTRY = re.compile(PATTERN.replace("$", r"\Z"))


@dataclass(frozen=True, slots=True)
class AllowedGroups:
    """Names of consumer groups, and prefixes that end with ``*``."""

    entries: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> AllowedGroups:
        """Parse a list such as ``billing,orders-*``. Raises ValueError with the end of the sentence "it must be …"."""
        entries = tuple(entry.strip() for entry in text.split(","))
        if not all(_ENTRY.match(entry) for entry in entries):
            raise ValueError("a comma-separated list of consumer groups; a prefix ends with *")
        return cls(entries)

    def __str__(self) -> str:
        return ",".join(self.entries)

    def allow(self, group: str) -> bool:
        """Whether positions of a group may be committed."""
        return is_listed(group, self.entries)

    def check(self, groups: Iterable[str], *, what: str) -> None:
        """Check that positions of all `groups` may be committed.

        Args:
            groups: names.
            what: who requests them, as the subject of the message, such as ``The file``.

        Raises:
            ConfigurationError: a group is not allowed; the message names the first.
        """
        refused = sorted({group for group in groups if not self.allow(group)})
        if refused:
            others = "" if len(refused) == 1 else f" and {len(refused) - 1:,} more"
            raise ConfigurationError(
                f"{what} names the consumer group {refused[0]}{others}, whose positions may not be committed; ask the "
                f"platform team to add it to allowedGroups of the KafkaConnection."
            )

    def allow_prefix(self, prefix: str) -> bool:
        """Whether positions of all groups whose names begin with `prefix` may be committed."""
        return any(entry.endswith("*") and prefix.startswith(entry[:-1]) for entry in self.entries)


ALLOWED_GROUPS = Setting(
    "allowedGroups",
    "",
    parse=AllowedGroups.parse,
    metavar="GROUP,…",
    shown_default="all",
)
"""Each command says in the help what the groups are allowed for."""
