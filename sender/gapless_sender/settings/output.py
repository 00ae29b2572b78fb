"""The settings of what a resend writes, and where; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.log_settings import LOG_GROUP, LOG_SETTINGS
from gapless_api.base.quantities import boolean, integer
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings, declare, value_of
from gapless_sender.settings.values import file_or_folder, seconds

_GROUP = "Output"
_LOG_STATISTICS = Setting(
    "logStatistics",
    "Seconds between the peer's statistics lines in the log; 0 for none.",
    parse=integer(0),
    default=0,
    metavar="SECONDS",
    group=LOG_GROUP,
    peer=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings(TypedSettings):
    """What a resend writes, and where."""

    report: Path | None = declare(
        "report",
        "File for the final report (or the plan) as JSON. In a folder (DIR/) its name is report.json. Each shard has "
        "its own file, with its number in the name.",
        parse=file_or_folder,
        writes=True,
        metavar="FILE|DIR/",
        group=_GROUP,
    )
    """This shard's own."""
    report_line: bool = declare(
        "reportLine",
        "Also write the report (or the plan) as one JSON line to standard error, shortened for logs: totals are "
        "complete, lists are truncated.",
        parse=boolean,
        default=False,
        group=_GROUP,
    )
    progress_seconds: float = declare(
        "progressInterval",
        "Seconds between progress lines (JSON on standard error) when that is not a terminal; 0 for none.",
        parse=seconds,
        default=5.0,
        metavar="SECONDS",
        group=_GROUP,
    )
    """0 for no lines."""
    id: str = declare("id", "Name of this sender in its status texts.", default="Resend", peer=True, group=_GROUP)
    statistics_seconds: int = value_of(_LOG_STATISTICS)
    """0 for no lines."""


OUTPUT = (*OutputSettings.declared(), *LOG_SETTINGS, _LOG_STATISTICS)
