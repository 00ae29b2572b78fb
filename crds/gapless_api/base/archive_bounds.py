"""Which regions and topics of an archive may be used, and the error for any other.

Must not know who uses them, or where the lists come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gapless_api.base.allowed_topics import AllowedTopics, is_listed, refused_phrase
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Setting


@dataclass(frozen=True, slots=True)
class ArchiveBounds:
    """Names, and prefixes that end with ``*``; ``None`` allows all."""

    topics: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ArchiveBounds:
        """Take the settings `ARCHIVE_BOUNDS`."""
        topics, regions = values["archiveAllowedTopics"], values["archiveAllowedRegions"]
        return cls(None if topics is None else topics.entries, regions)

    def arguments(self) -> list[str]:
        """Return the command-line arguments, which settings files and environment variables cannot override."""
        given = {"topics": self.topics, "regions": self.regions}
        return [f"--archive-allowed-{name}={','.join(entries)}" for name, entries in given.items() if entries]

    def check(self, region: str | None, topics: Iterable[str] = (), *, what: str) -> None:
        """Check that a region, and all `topics` in it, may be used.

        Args:
            region: of the archive; ``None`` if it is not known yet.
            topics: as the archive names them.
            what: who requests them, as the subject of the message, such as ``The restore``.

        Raises:
            ConfigurationError: the region or a topic is not allowed; the message names the first.
        """
        _check([] if region is None else [region], self.regions, what=what, noun="region", field="allowedRegions")
        _check(topics, self.topics, what=what, noun="archived topic", field="allowedTopics")

    def check_matching(self, pattern: str, topics: Iterable[str], *, what: str) -> None:
        """Check the topics that a name, or a prefix that ends with ``*``, stands for.

        The message names `pattern` only, not the topics: whoever gave it may not be allowed to know of them.

        Raises:
            ConfigurationError: one of `topics` is not allowed.
        """
        if self.topics is None or all(is_listed(topic, self.topics) for topic in topics):
            return
        noun = "archived topics" if pattern.endswith("*") else "archived topic"
        _check([pattern], self.topics, what=what, noun=noun, field="allowedTopics")

    def check_prefixes(self, prefixes: Iterable[str], *, what: str) -> None:
        """Check that all topics whose names begin with one of `prefixes` may be used. Raises like `check`."""
        entries = None if self.topics is None else [entry for entry in self.topics if entry.endswith("*")]
        _check(prefixes, entries, what=what, noun="archived topics with the prefix", field="allowedTopics")


ALL_ARCHIVED = ArchiveBounds()
"""Everything is allowed."""


def _check(names: Iterable[str], entries: Iterable[str] | None, *, what: str, noun: str, field: str) -> None:
    if entries is None:
        return
    entries = tuple(entries)
    refused = sorted({name for name in names if not is_listed(name, entries)})
    if refused:
        raise ConfigurationError(
            f"{what} requests the {noun} {refused_phrase(refused, entries)}; ask the platform team to add it to "
            f"{field} of the StorageLocation."
        )


def _regions(text: str) -> tuple[str, ...]:
    try:
        return AllowedTopics.parse(text).entries
    except ValueError:
        raise ValueError("a comma-separated list of regions; a prefix ends with *") from None


ARCHIVE_BOUNDS = (
    Setting(
        "archiveAllowedTopics",
        "Topics of the archive that may be used, by name or as a prefix with *; all others are refused. On the command "
        "line it overrides files and environment variables.",
        parse=AllowedTopics.parse,
        metavar="TOPIC,…",
        shown_default="all",
        group="Archive",
    ),
    Setting(
        "archiveAllowedRegions",
        "Regions of the archive that may be used, by name or as a prefix with *; all others are refused. On the "
        "command line it overrides files and environment variables.",
        parse=_regions,
        metavar="NAME,…",
        shown_default="all",
        group="Archive",
    ),
)
