"""Owns the settings of ``gapless mirror diff`` and ``groups``; those of the mirror may stand in the same file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.settings import Setting, SettingsTable, boolean
from gapless_kafka.mirror.settings.table import MIRROR
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection

_SHARED = frozenset({"connectTimeout", "consumerConfig", "producerConfig", "whitelist", "flow"})
_CLUSTERS = frozenset({"Source cluster", "Target cluster"})
_JSON = Setting(
    "json",
    "Print JSON instead of a table.",
    parse=boolean,
    default=False,
    shown_default="false",
    metavar="true|false",
    switch=True,
    own=True,
    group="Output",
)


def _table(names: Collection[str], *more: Setting) -> SettingsTable:
    """The settings of the mirror with these names, those of both clusters, and `more`."""
    shown = [one for one in MIRROR.settings if one.group in _CLUSTERS or one.name in _SHARED or one.name in names]
    return SettingsTable(
        MIRROR.prefix,
        (*shown, *more),
        foreign={one.name: "a setting of gapless mirror itself" for one in MIRROR.settings if one not in shown},
    )


_PLAN = Setting(
    "plan",
    "Show what would be written, and write nothing.",
    parse=boolean,
    default=False,
    shown_default="false",
    metavar="true|false",
    switch=True,
    own=True,
    group="Output",
)
GROUPS = _table({"name", "groups", "groupPrefix", "groupPattern"}, _PLAN, _JSON)
DIFF = _table({*(one.name for one in TOPIC_CHOICE_SETTINGS), "rename", "sourceName"}, _JSON)
