"""The settings of the commands ``gapless segments``; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gapless_api.base.archive_bounds import ARCHIVE_BOUNDS
from gapless_api.base.quantities import boolean, byte_count, duration
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, include
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_archive.selection import ARCHIVE, GENERATION, REGION, SELECTION_SETTINGS, TOPICS
from gapless_archive.store.access import S3_SETTINGS

_OUTPUT, _HOW = "Output", "How to delete"


def _switch(name: str, text: str, group: str) -> Setting:
    return Setting(name, text, parse=boolean, default=False, group=group)


JSON = _switch("json", "Whether to print JSON.", _OUTPUT)
OLDER_THAN = Setting(
    "olderThan",
    "Remove segments whose newest record is older, such as 90d. Without timestamps, the time of writing counts.",
    parse=duration(0),
    metavar="DURATION",
    group="What to delete",
)
KEEP_BYTES = Setting(
    "keepBytes",
    "Remove the oldest segments of each topic until at most so many stored bytes remain, such as 2TiB.",
    parse=byte_count(0),
    metavar="SIZE",
    group="What to delete",
)
MIN_RETENTION = Setting(
    "minRetention",
    "Minimum age of records to remove: olderThan below it and all are refused, and keepBytes removes no segment with a "
    "newer record. On the command line it overrides files and environment variables.",
    parse=duration(0),
    metavar="DURATION",
    group="What to delete",
)
RETENTION_SETTINGS = (OLDER_THAN, KEEP_BYTES, MIN_RETENTION)
"""Segments are removed from the beginning of a partition, and never from a topic on hold."""
GRACE_PERIOD = Setting(
    "gracePeriod",
    "How long objects stay after their segments were removed, for programs that still read them.",
    parse=duration(0),
    default=3600.0,
    shown_default="1h",
    metavar="DURATION",
    group=_HOW,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(TypedSettings):
    """How ``gapless segments verify`` reports."""

    json: bool = include(JSON)
    progress_interval_seconds: float = include(PROGRESS_INTERVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSettings(TypedSettings):
    """What ``gapless segments delete`` does after the selection."""

    plan: bool = include(
        replace(_switch("plan", "Whether to only show what would be removed.", _HOW), aliases=("dryRun",))
    )
    yes: bool = include(_switch("yes", "Whether to delete without confirmation. Required without a terminal.", _HOW))
    grace_period_seconds: float = include(GRACE_PERIOD)


_DELETION = (
    *RETENTION_SETTINGS,
    _switch("all", "Whether to remove all segments of the selected topics.", "What to delete"),
    *DeleteSettings.declared(),
)


def _table(*settings: Setting) -> SettingsTable:
    siblings = (*SELECTION_SETTINGS, *_DELETION, JSON, PROGRESS_INTERVAL)
    return SettingsTable("GAPLESS_SEGMENTS_", (*settings, *S3_SETTINGS), siblings=siblings)


LIST = _table(*SELECTION_SETTINGS, JSON)
VERIFY = _table(*SELECTION_SETTINGS, *VerifySettings.declared())
SHOW = _table(ARCHIVE, REGION, *ARCHIVE_BOUNDS, JSON)
HOLD = _table(ARCHIVE, REGION, TOPICS, GENERATION, *ARCHIVE_BOUNDS)
DELETE = _table(*SELECTION_SETTINGS, *_DELETION)
