"""The settings of ``gapless mirror evaluate``; the file may be that of the mirror."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL
from gapless_api.base.settings import SettingsTable
from gapless_api.base.typed_settings import TypedSettings, include
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.settings.values import TRANSFORM_SOCKET
from gapless_spark.settings.engine import DRIVER_MEMORY, MASTER


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSettings(TypedSettings):
    """The settings of the evaluation."""

    transform_socket: Path = include(
        replace(
            TRANSFORM_SOCKET,
            help="Socket on which workers ask; it is created. Only processes that may write to it can connect.",
            shown_default="",
            required=True,
        )
    )
    master: str = include(replace(MASTER, help="Where Spark runs: local, local[N] or local[*]."))
    driver_memory: str = include(DRIVER_MEMORY)
    log_level: str = include(LOG_LEVEL)
    log_file_name: Path | None = include(LOG_FILE)


_OWN = EvaluateSettings.declared()
_names = frozenset(setting.name for setting in _OWN)
EVALUATE = SettingsTable(
    MIRROR.prefix,
    _OWN,
    foreign={each.name: "a setting of gapless mirror itself" for each in MIRROR.settings if each.name not in _names},
    siblings=(*MIRROR.settings, *MIRROR.siblings),
    common=("transformSocket", "driverMemory"),
)
