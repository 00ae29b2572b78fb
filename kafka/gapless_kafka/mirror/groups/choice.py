"""Owns which consumer groups a mirror translates: by name, prefix or pattern, and never its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.quantities import duration
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWN_PREFIX = "gapless-"
"""How the groups of programs of Gapless begin."""
_GROUP = "Consumer groups"


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """What a user chose."""

    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """It must match the complete name."""

    def __bool__(self) -> bool:
        """Whether anything is chosen."""
        return bool(self.names or self.prefixes or self.pattern is not None)

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """The groups to translate, sorted: those of `existing` that fit."""
        return sorted(group for group in existing if self._fits(group))

    def missing(self, existing: Iterable[str]) -> list[str]:
        """The groups that are named and do not exist, sorted."""
        return sorted(set(self.names).difference(existing))

    def _fits(self, group: str) -> bool:
        if group in self.names:
            return True
        fits = group.startswith(self.prefixes) if self.prefixes else False
        fits = fits or (self.pattern is not None and self.pattern.fullmatch(group) is not None)
        return fits and not group.startswith(OWN_PREFIX)


def _words(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise ValueError("names of consumer groups separated by commas")
    return found


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None


GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "groups",
        "Consumer groups whose positions are translated to the target, separated by commas.",
        parse=_words,
        default=(),
        metavar="GROUP,…",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "groupPrefix",
        "Also all groups that begin so; several prefixes are separated by commas.",
        parse=_words,
        default=(),
        metavar="PREFIX,…",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "groupPattern",
        "Also all groups whose complete name matches this regular expression. Groups of Gapless are translated only "
        "when groups names them.",
        parse=_pattern,
        metavar="REGEX",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "groupInterval",
        "How often positions of the groups are translated while the mirror runs.",
        parse=duration(1),
        default=60.0,
        shown_default="60s",
        metavar="DURATION",
        own=True,
        group=_GROUP,
    ),
)
"""The settings of the consumer groups of a mirror."""


def group_choice_from(values: Mapping[str, Any]) -> GroupChoice:
    """The choice that `GROUP_SETTINGS` describe."""
    return GroupChoice(values["groups"], values["groupPrefix"], values["groupPattern"])
