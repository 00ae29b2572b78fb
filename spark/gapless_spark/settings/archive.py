"""The settings of ``gapless archive``: the place, when segments are finished, and how it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.archive_bounds import ARCHIVE_BOUNDS
from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL, LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, byte_count, choice, duration, integer, seconds
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_archive.selection import ARCHIVE as PLACE_OF_ARCHIVE
from gapless_archive.selection import REGION as REGION_OF_ARCHIVE
from gapless_archive.store.access import S3_SETTINGS, S3_WRITING_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_spark.settings.engine import engine_settings

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Layout
    from gapless_archive.store.places import PlaceAddress

_WHERE, _WHEN = "Archive", "When to write"


ARCHIVE_PLACE = replace(PLACE_OF_ARCHIVE, group=_WHERE)
REGION = replace(
    REGION_OF_ARCHIVE,
    help="Name of the cluster in the archive; one archive can hold topics of several clusters.",
    required=True,
    shown_default="",
    aliases=(),
    group=_WHERE,
)


_group_id = Setting(
    "groupID",
    "Consumer group to which the position of the archive is committed, for tools that monitor lag; none for no group. "
    "The archive itself does not use it.",
    shown_default="gapless-archive-REGION",
    group="Kafka",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings(TypedSettings):
    """Where topics are archived, when, and how that is reported."""

    archive: PlaceAddress = include(ARCHIVE_PLACE)
    region: str = include(REGION)
    layout: Layout = declare(
        "layout",
        "Layout of the archive: gapless; kafka-replicator: as that program reads and writes it, after the segments "
        "that it has written. That layout stores null as empty, no timestamp types, and one topic ID per topic.",
        parse=choice("gapless", "kafka-replicator"),
        default="gapless",
        group=_WHERE,
    )
    once: bool = declare(
        "once",
        "Whether to archive what exists now and exit. Otherwise the program runs until it is stopped.",
        parse=boolean,
        default=False,
        group=_WHEN,
    )
    max_segment_records: int = declare(
        "maxSegmentRecords",
        "A segment of a partition is written at this number of records.",
        parse=integer(1),
        default=1_000_000,
        aliases=("maxSegmentMessages",),
        metavar="NUMBER",
        group=_WHEN,
    )
    max_segment_bytes: int = declare(
        "maxSegmentBytes",
        "A segment is written at this size of keys, values and headers; so is an object of several segments.",
        parse=byte_count(1),
        default=100 << 20,
        shown_default="100MiB",
        aliases=("maxSegmentSize",),
        metavar="SIZE",
        group=_WHEN,
    )
    max_segment_age_seconds: float = declare(
        "maxSegmentAge",
        "Maximum time before a record is archived, even if its segment is smaller than that.",
        parse=duration(0),
        default=300.0,
        shown_default="5m",
        metavar="DURATION",
        group=_WHEN,
    )
    topic_thresholds: Path | None = declare(
        "topicThresholds",
        "File (YAML or JSON) with other thresholds for some topics: a name, or a prefix that ends with *, and below it "
        "maxSegmentRecords, maxSegmentBytes and maxSegmentAge.",
        parse=Path,
        group=_WHEN,
    )
    trigger_interval_seconds: float = declare(
        "triggerInterval",
        "Seconds between two checks of the topics.",
        parse=seconds(0.1, 3600),
        default=10.0,
        metavar="SECONDS",
        group=_WHEN,
    )
    cycle_bytes: int = declare(
        "cycleBytes",
        "About how many bytes are read per core before they are committed. A kill loses at most this work.",
        parse=byte_count(1),
        default=1 << 30,
        shown_default="1GiB",
        metavar="SIZE",
        group=_WHEN,
    )
    hold: bool | None = declare(
        "hold",
        "Legal hold: true prevents any program from deleting segments of the topics; false releases the topics, also "
        "those held by gapless segments hold.",
        parse=boolean,
        shown_default="unchanged",
        group=_WHERE,
        switch=False,
    )
    metrics_port: int | None = declare(
        "metricsPort",
        "Port for Prometheus metrics, on all addresses.",
        parse=integer(1, 65535),
        metavar="PORT",
        group="Output",
    )
    report: Path | None = declare("report", "File for a report in JSON.", parse=Path, writes=True, group="Output")
    group_id: str | None = value_of(_group_id)
    progress_interval_seconds: float = value_of(PROGRESS_INTERVAL)
    allowed_topics: AllowedTopics | None = value_of(ALLOWED_TOPICS)
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)


_engine = engine_settings(
    "What reads Kafka: spark; local: this process, without Spark; auto: local for little data, which is faster than "
    "starting Spark, otherwise Spark. Under spark-submit, and with a master on other machines, Spark always reads.",
    tasks_by_default="two per core, fewer for little data",
)
_settings = (
    *TOPIC_CHOICE_SETTINGS,
    *ArchiveSettings.declared(),
    PROGRESS_INTERVAL,
    *(_group_id if setting.name == "groupID" else setting for setting in KAFKA_SETTINGS),
    CONNECT_TIMEOUT,
    ALLOWED_TOPICS,
    *ARCHIVE_BOUNDS,
    *S3_SETTINGS,
    *S3_WRITING_SETTINGS,
    *LOG_SETTINGS,
    *_engine,
)
ARCHIVE = SettingsTable(
    "GAPLESS_ARCHIVE_",
    _settings,
    foreign_settings(_settings),
    common=(
        "topics",
        "topicPattern",
        "exclude",
        "bootstrapServers",
        "caFile",
        "archive",
        "region",
        "once",
        "engine",
        "report",
    ),
)
"""``gapless archive``, which has no counterpart among the peer's programs."""
