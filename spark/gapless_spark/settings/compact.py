"""The settings of ``gapless compact``: those of kafka-replicator, also under its names, and further ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL, LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, byte_count, duration, integer
from gapless_api.base.settings import SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_archive.cli.segments_settings import GRACE_PERIOD, KEEP_BYTES, MIN_RETENTION, OLDER_THAN
from gapless_archive.selection import SELECTION_SETTINGS
from gapless_archive.store.access import S3_SETTINGS, S3_WRITING_SETTINGS
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_spark.settings.engine import ENGINE

_WHAT, _WHEN, _DELETE = "What to join", "When to run", "What to delete"
_MAX_LEVEL = 99


def _storage_classes(text: str) -> tuple[tuple[int, str], ...]:
    found = []
    for word in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,2})=([A-Z][A-Z0-9_]{1,63})\s*", word)
        if match is None:
            raise ValueError("levels with storage classes, such as 1=STANDARD_IA,2=GLACIER_IR")
        found.append((int(match[1]), match[2]))
    return tuple(found)


def _of_peer(name: str, text: str, **more: Any) -> Any:
    """Declare a setting of kafka-replicator, with an alias in its spelling, which begins with a capital letter."""
    return declare(name, text, aliases=(name[0].upper() + name[1:],), **{"group": _WHAT, **more})


_SELECTION = "What to work on"
_choice_texts = {
    "topicPrefix": "Also all topics with this prefix; several prefixes are separated by commas.",
    "topicPattern": "Also all topics whose complete name matches this regular expression.",
    "exclude": "Topics to leave out, separated by commas; * matches any characters.",
}
_choices = {
    setting.name: replace(setting, help=_choice_texts[setting.name], group=_SELECTION)
    for setting in TOPIC_CHOICE_SETTINGS
    if setting.name in _choice_texts
}
_level = integer(0, _MAX_LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings(TypedSettings):
    """The settings of a compaction, without its selection of topics."""

    topic_prefix: tuple[str, ...] = include(_choices["topicPrefix"])
    topic_pattern: re.Pattern[str] | None = include(_choices["topicPattern"])
    exclude: tuple[re.Pattern[str], ...] = include(_choices["exclude"])
    ignore_missing_topics: bool = declare(
        "ignoreMissingTopics",
        "Whether to ignore named topics that are not in the archive. Otherwise they are an error.",
        parse=boolean,
        default=False,
        group=_SELECTION,
    )
    min_level: int = _of_peer(
        "minLevel",
        "Lowest level of segments to join.",
        parse=_level,
        default=0,
        shown_default="0",
        metavar="LEVEL",
    )
    max_level: int = _of_peer(
        "maxLevel",
        "Highest level of segments to join. gapless archive writes level 0; a new segment is one level above the "
        "highest of its inputs.",
        parse=_level,
        default=0,
        shown_default="0",
        metavar="LEVEL",
    )
    min_segment_age: float = _of_peer(
        "minSegmentAge",
        "Younger segments are not joined.",
        parse=duration(0),
        default=3600.0,
        shown_default="1h",
        metavar="DURATION",
    )
    min_segment_count: int = _of_peer(
        "minSegmentCount",
        "Fewer consecutive segments are not joined.",
        parse=integer(1),
        default=10,
        shown_default="10",
        metavar="NUMBER",
    )
    min_segment_size: int = _of_peer(
        "minSegmentSize",
        "Consecutive segments with fewer stored bytes in total are not joined.",
        parse=byte_count(0),
        default=1 << 30,
        shown_default="1GiB",
        metavar="SIZE",
    )
    max_segment_count: int = _of_peer(
        "maxSegmentCount",
        "Maximum number of inputs of a new segment.",
        parse=integer(1),
        default=1000,
        shown_default="1000",
        metavar="NUMBER",
    )
    max_segment_size: int = _of_peer(
        "maxSegmentSize",
        "A new segment gets no more inputs once these have this many stored bytes.",
        parse=byte_count(1),
        default=4 << 30,
        shown_default="4GiB",
        metavar="SIZE",
    )
    batch_size: int | None = _of_peer(
        "batchSize",
        "Maximum number of records of a row group, the unit of reading and writing.",
        parse=integer(1),
        shown_default="as many as fit in 6 MiB",
        metavar="NUMBER",
    )
    level_storage_class: tuple[tuple[int, str], ...] = declare(
        "levelStorageClass",
        "Storage class of new objects by level, such as 1=STANDARD_IA,2=GLACIER_IR.",
        parse=_storage_classes,
        default=(),
        shown_default="s3StorageClass",
        metavar="LEVEL=CLASS,…",
        group=_WHAT,
    )
    schedule: str | None = declare(
        "schedule",
        "Cron expression with five fields, or six with seconds first. Without it the program runs once and exits.",
        aliases=("cronSchedule", "CronSchedule"),
        metavar="CRON",
        group=_WHEN,
    )
    time_zone: str = declare(
        "timeZone",
        "Time zone of the schedule, such as Europe/Stockholm.",
        default="Etc/UTC",
        aliases=("cronLocation", "CronLocation"),
        metavar="NAME",
        group=_WHEN,
    )
    delete: bool = _of_peer(
        "delete",
        "Whether to delete objects that are no longer needed.",
        parse=boolean,
        default=True,
        switch=False,
        group=_DELETE,
    )
    grace_period: float = include(replace(GRACE_PERIOD, group=_DELETE))
    older_than: float | None = include(OLDER_THAN)
    keep_bytes: int | None = include(KEEP_BYTES)
    min_retention: float | None = include(MIN_RETENTION)
    report: Path | None = declare("report", "File for a report in JSON.", parse=Path, writes=True, group="Output")
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)


_engine_texts = {
    "engine": "What joins segments: spark; local: this process, without Spark; auto: local for up to 1 GiB, otherwise "
    "Spark. Under spark-submit, and with a master on other machines, Spark always joins.",
    "parallelism": "How many new segments are written at the same time.",
}
_engine = tuple(
    replace(
        setting,
        help=_engine_texts.get(setting.name, setting.help),
        shown_default="the number of cores" if setting.name == "parallelism" else setting.shown_default,
        aliases=("Parallelism",) if setting.name == "parallelism" else setting.aliases,
    )
    for setting in ENGINE
)
_settings = (
    *SELECTION_SETTINGS,
    *CompactSettings.declared(),
    PROGRESS_INTERVAL,
    *S3_SETTINGS,
    *S3_WRITING_SETTINGS,
    *LOG_SETTINGS,
    *_engine,
)
COMPACT = SettingsTable(
    "GAPLESS_COMPACT_",
    _settings,
    foreign_settings(_settings),
    common=(
        "archive",
        "region",
        "topics",
        "minSegmentAge",
        "schedule",
        "delete",
        "olderThan",
        "gracePeriod",
        "engine",
        "report",
    ),
)
"""``gapless compact``, which has no counterpart among the peer's programs."""
