"""The settings of ``gapless mirror diff``, ``groups`` and ``import``.

The file of the first two may also contain those of the mirror.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, replace

from gapless_api.base.missing_code import EXIT_CODE
from gapless_api.base.refusals import IGNORED
from gapless_api.base.settings import IGNORE_UNKNOWN, Resolved, Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, value_of
from gapless_kafka.access.settings import CONNECT_TIMEOUT
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_mirror.settings.table import IMPORT_OUTPUT, JSON, MIRROR, PLAN

_SHARED = frozenset({"connectTimeout", "consumerConfig", "producerConfig", "whitelist", "flow", IGNORE_UNKNOWN})
_CLUSTERS = frozenset({"Source cluster", "Target cluster"})


def _table(names: Collection[str], *more: Setting, common: tuple[str, ...]) -> SettingsTable:
    """Return the settings of the mirror with these names, those of both clusters, and `more`.

    ``--help`` shows those of `common`, with the name and the clusters.
    """
    own = [each for each in MIRROR.settings if each.group in _CLUSTERS or each.name in _SHARED or each.name in names]
    return SettingsTable(
        MIRROR.prefix,
        (*own, *more),
        foreign={each.name: "a setting of gapless mirror itself" for each in MIRROR.settings if each not in own},
        siblings=(*MIRROR.settings, *MIRROR.siblings),
        common=("name", "sourceBootstrapServers", "targetBootstrapServers", *common),
    )


GROUPS = _table(
    {"name", "groups", "groupPrefix", "groupPattern", "allowedGroups"},
    PLAN,
    JSON,
    common=("groups", "groupPattern", "plan", "json"),
)
DIFF = _table(
    {*(setting.name for setting in TOPIC_CHOICE_SETTINGS), "rename", "sourceName", "targetName", "name"},
    JSON,
    EXIT_CODE,
    common=("topics", "topicPattern", "exclude", "rename", "json", "exitCode"),
)
_imported = {setting.name: setting for setting in MIRROR.settings}
IMPORT = SettingsTable(
    MIRROR.prefix,
    (
        replace(_imported["flow"], help="Flow to print if FILE has several.", group=""),
        *(
            replace(
                _imported[f"{side}BootstrapServers"],
                help=f"Bootstrap servers of the {side}, if FILE does not name them or names others.",
                required=False,
                group="",
            )
            for side in ("source", "target")
        ),
        *IMPORT_OUTPUT,
    ),
    siblings=(*MIRROR.settings, *MIRROR.siblings),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubcommandSettings(TypedSettings):
    """What the subcommands read besides the clusters and the selection; those without a setting have its default."""

    json: bool = value_of(JSON)
    name: str = value_of(_imported["name"])
    plan: bool = value_of(PLAN)
    exit_code: bool = value_of(EXIT_CODE)
    connect_timeout_seconds: float = value_of(CONNECT_TIMEOUT)


def list_unknown(settings: Resolved) -> None:
    """List on stderr the unknown settings that are ignored; these commands have no log."""
    unknown = [name for name, why in settings.ignored.items() if why == IGNORED]
    if unknown:
        sys.stderr.write(f"Unknown settings are ignored: {', '.join(unknown)}.\n")
