"""The selection of consumer groups whose offsets a mirror translates: by name, prefix or pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.allowed_groups import ALLOWED_GROUPS, AllowedGroups
from gapless_api.base.quantities import duration, names, regular_expression
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    import re


OWN_PREFIX = "gapless-"
"""The prefix of consumer groups of Gapless, which are only selected by name."""
_GROUP = "Consumer groups"


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """The selected consumer groups."""

    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """It must match the complete name."""
    allowed: AllowedGroups | None = None
    """Which groups `prefixes` and `pattern` may select; ``None`` for all."""

    def __bool__(self) -> bool:
        """Whether any groups are selected."""
        return bool(self.names or self.prefixes or self.pattern is not None)

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """Return the selected groups of `existing`, sorted."""
        return sorted(group for group in existing if group in self.names or self._is_matched(group, allowed=True))

    def not_allowed(self, existing: Iterable[str]) -> list[str]:
        """Return the groups of `existing` that only a prefix or the pattern selects and `allowed` does not, sorted."""
        return sorted(group for group in existing if group not in self.names and self._is_matched(group, allowed=False))

    def missing(self, existing: Iterable[str]) -> list[str]:
        """Return the groups that are selected by name and do not exist, sorted."""
        return sorted(set(self.names).difference(existing))

    def _is_matched(self, group: str, *, allowed: bool) -> bool:
        """Whether a prefix or the pattern matches a group that may be selected, or one that may not."""
        matches = group.startswith(self.prefixes) or (
            self.pattern is not None and self.pattern.fullmatch(group) is not None
        )
        if not matches or group.startswith(OWN_PREFIX):
            return False
        return allowed == (self.allowed is None or self.allowed.allow(group))


_group_names = names("names of consumer groups separated by commas")

GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "groups",
        "Consumer groups whose offsets are translated to the target, separated by commas.",
        parse=_group_names,
        aliases=("group",),
        default=(),
        metavar="GROUP,…",
        group=_GROUP,
    ),
    Setting(
        "groupPrefix",
        "Also all groups whose name begins with one of these prefixes, separated by commas.",
        parse=_group_names,
        default=(),
        metavar="PREFIX,…",
        group=_GROUP,
    ),
    Setting(
        "groupPattern",
        "Also all groups whose complete name matches this regular expression. Groups of Gapless itself are only "
        "translated if they are listed in groups.",
        parse=regular_expression,
        metavar="REGEX",
        group=_GROUP,
    ),
    replace(
        ALLOWED_GROUPS,
        help="Groups that groupPrefix and groupPattern may select, by name or as a prefix with *; other groups are "
        "reported and not translated. On the command line it overrides files and variables.",
        group=_GROUP,
    ),
    Setting(
        "groupInterval",
        "How often the offsets of the groups are translated while the mirror runs.",
        parse=duration(1),
        default=60.0,
        shown_default="60s",
        metavar="DURATION",
        group=_GROUP,
    ),
)
"""The settings of the consumer groups of a mirror."""


def group_choice_from(values: Mapping[str, Any]) -> GroupChoice:
    """Return the selection from the values of `GROUP_SETTINGS`."""
    return GroupChoice(values["groups"], values["groupPrefix"], values["groupPattern"], values["allowedGroups"])
