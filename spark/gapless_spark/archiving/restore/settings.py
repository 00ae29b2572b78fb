"""The settings of ``gapless restore``, also under the names of kafka-replicator; must not know what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gapless_api.base.allowed_groups import ALLOWED_GROUPS, AllowedGroups
from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.archive_bounds import ARCHIVE_BOUNDS
from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL, LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, choice, duration, integer, partition_numbers, seconds, timestamp_ms
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_archive.selection import ARCHIVE, REGION
from gapless_archive.store.access import S3_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_kafka.writing.positions import CONTROL_TOPIC
from gapless_spark.archiving.restore.values import (
    NO,
    Remapping,
    SourceTopic,
    adjustment,
    offset_range,
    remapping,
    sources,
)
from gapless_spark.settings.engine import engine_settings
from gapless_spark.settings.values import words

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRange
    from gapless_archive.store.places import PlaceAddress

_WHAT, _WHERE, _HOW, _FOLLOW = "What to restore", "Target", "How to write", "New segments"


SPARK_ABOVE = Setting(
    "sparkAbove",
    "With engine=auto, Spark writes if there are more records than this, otherwise this process.",
    parse=integer(0),
    default=3_000_000,
    metavar="RECORDS",
    group="Engine",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings(TypedSettings):
    """What is restored, where, and how."""

    archive: PlaceAddress = include(replace(ARCHIVE, group=_WHAT))
    topics: tuple[str, ...] = declare(
        "topics",
        "Archived topics, separated by commas; NAME* stands for all topics with this prefix.",
        parse=words,
        default=(),
        aliases=("topic",),
        metavar="TOPIC,…",
        group=_WHAT,
    )
    source: tuple[SourceTopic, ...] = declare(
        "source",
        "Archived topics with their regions and targets; repeat it, or separate several by commas. Several sources may "
        "have the same target, in which each keeps its partitions and its order.",
        parse=sources,
        default=(),
        aliases=("sources",),
        repeatable=True,
        metavar="REGION/TOPIC[=TARGET]",
        group=_WHAT,
    )
    region: str | None = include(replace(REGION, aliases=(), group=_WHAT))
    generation: str | None = declare(
        "generation",
        "Topic ID, if the archive has several topic IDs of a topic that was recreated; kafka-replicator for its "
        "segments beside others.",
        shown_default="the newest one, if the commits prove which it is",
        aliases=("topicId",),
        metavar="ID",
        group=_WHAT,
    )
    partitions: frozenset[int] | None = declare(
        "partitions",
        "Partitions to restore, such as 0,4-7.",
        parse=partition_numbers,
        aliases=("partition",),
        shown_default="all",
        metavar="NUMBERS",
        group=_WHAT,
    )
    offsets: OffsetRange | None = declare(
        "offsets",
        "Offsets to restore of each partition, both inclusive.",
        parse=offset_range,
        shown_default="all",
        metavar="FIRST-LAST",
        group=_WHAT,
    )
    since: int | None = declare(
        "since",
        "Restore records with this timestamp or a later one: a time such as 2026-11-20T10:00:00Z, or a date (its first "
        "moment in UTC). Records without a timestamp are left out.",
        parse=timestamp_ms,
        metavar="TIME",
        group=_WHAT,
    )
    until: int | None = declare(
        "until",
        "Restore only records with earlier timestamps; written like since.",
        parse=timestamp_ms,
        metavar="TIME",
        group=_WHAT,
    )
    to_topic: str | None = declare(
        "toTopic",
        "Topic to write to. If it does not exist, it is created with the archived configuration and partition count.",
        aliases=("destinationTopic", "DestinationTopic"),
        shown_default="the name of the archived topic",
        metavar="TOPIC",
        group=_WHERE,
    )
    remap_partitions: Remapping | None = declare(
        "remapPartitions",
        "Mapping of partitions to a target with fewer partitions, which is otherwise refused: modulo, or pairs "
        "SOURCE:TARGET. The order within each source partition is kept.",
        parse=remapping,
        metavar="modulo|PAIRS",
        group=_WHERE,
    )
    create_topics: bool = declare(
        "createTopics",
        "Whether to create missing topics, with the archived configuration and partition count; false refuses them.",
        parse=boolean,
        default=True,
        group=_WHERE,
    )
    replication_factor: int = declare(
        "replicationFactor",
        "Replicas of topics that are created.",
        parse=integer(1, 1000),
        default=-1,
        shown_default="that of the brokers",
        metavar="NUMBER",
        group=_WHERE,
    )
    adjust_retention: Literal["false", "true", "keep"] = declare(
        "adjustRetention",
        "Whether to change settings of the target that delete or refuse old records: retention and limits of "
        "timestamps. true changes them during the restore and then sets them back, after which Kafka deletes records "
        "that are too old; keep leaves them changed. false refuses such a target.",
        parse=adjustment,
        default=NO,
        switch=True,
        metavar="true|false|keep",
        group=_WHERE,
    )
    timestamps: Literal["keep", "replace"] = declare(
        "timestamps",
        "keep: refuse a target that replaces timestamps by its own time (LogAppendTime); replace: accept it.",
        parse=choice("keep", "replace"),
        default="keep",
        group=_WHERE,
    )
    group_offsets: Path | None = declare(
        "groupOffsets",
        "File with positions of consumer groups, in the format of kafka-consumer-groups.sh --export. They are "
        "translated to offsets of the target and committed there when everything is restored; if --follow was used, by "
        "a last run without it.",
        parse=Path,
        group=_WHERE,
    )
    group_name: str | None = declare(
        "groupName",
        "Consumer group of that file, if the file does not name one.",
        metavar="NAME",
        group=_WHERE,
    )
    plan: bool = declare(
        "plan",
        "Whether to show only what would be written and created; nothing is changed.",
        parse=boolean,
        default=False,
        aliases=("dryRun",),
        group=_HOW,
    )
    delivery: Literal["exactly-once", "at-least-once"] = declare(
        "delivery",
        "exactly-once: in transactions that also contain the position; at-least-once: without transactions, where a "
        "kill, or a record that is refused, repeats up to batchSize records.",
        parse=choice("exactly-once", "at-least-once"),
        default="exactly-once",
        group=_HOW,
    )
    batch_size: int = declare(
        "batchSize",
        "Maximum number of records in a transaction.",
        parse=integer(1, 100_000),
        default=10_000,
        aliases=("BatchSize",),
        metavar="NUMBER",
        group=_HOW,
    )
    on_bad_record: Literal["fail", "skip-and-record"] = declare(
        "onBadRecord",
        "What to do with a record that the target refuses: it is too large, or has a timestamp or no key where the "
        "topic does not allow that. fail: its partition stops before it, and everything else is written. "
        "skip-and-record: its offset is recorded, and the partition continues after it. Both end with exit code 4.",
        parse=choice("fail", "skip-and-record"),
        default="fail",
        group=_HOW,
    )
    compression: str = declare(
        "compression",
        "Compression of the producer; the target uses it unless its compression.type is different.",
        parse=choice("lz4", "zstd", "snappy", "gzip", "none"),
        default="lz4",
        group=_HOW,
    )
    control_topic: str = declare(
        "controlTopic",
        "Compacted topic for positions and offset maps; it is created if it does not exist.",
        default=CONTROL_TOPIC,
        metavar="TOPIC",
        group=_HOW,
    )
    report: Path | None = declare("report", "File for a report in JSON.", parse=Path, writes=True, group=_HOW)
    follow: bool = declare(
        "follow",
        "Whether to continue with new segments until the program is stopped.",
        parse=boolean,
        default=False,
        group=_FOLLOW,
    )
    follow_interval_seconds: float = declare(
        "followInterval",
        "Seconds between two checks of the archive.",
        parse=seconds(0.1, 86_400),
        default=10.0,
        metavar="SECONDS",
        group=_FOLLOW,
    )
    on_lost: Literal["fail", "skip"] = declare(
        "onLost",
        "What to do if offsets are missing from the archive, or a segment is damaged: fail, or skip them and report "
        "them. Offsets that the archive records as lost are always skipped and reported.",
        parse=choice("fail", "skip"),
        default="fail",
        group=_FOLLOW,
    )
    lost_segment_timeout_seconds: float = declare(
        "lostSegmentTimeout",
        "With --follow: how long to wait for late segments.",
        parse=duration(0),
        default=86_400.0,
        shown_default="24h",
        aliases=("LostSegmentTimeout",),
        metavar="DURATION",
        group=_FOLLOW,
    )
    late_segment_retries: int = declare(
        "lateSegmentRetries",
        "How many times to check for them in this time, with exponential pauses.",
        parse=integer(1, 50),
        default=16,
        aliases=("LateSegmentRetries",),
        metavar="NUMBER",
        group=_FOLLOW,
    )
    first_segment_delay_seconds: float | None = declare(
        "firstSegmentDelay",
        "With --follow: minimum age of the first segment of a partition before the restore starts with it.",
        parse=duration(0),
        default=None,
        shown_default="30m for segments of kafka-replicator, which may arrive in any order; otherwise 0",
        aliases=("FirstSegmentDelay",),
        metavar="DURATION",
        group=_FOLLOW,
    )
    allowed_topics: AllowedTopics | None = value_of(ALLOWED_TOPICS)
    allowed_groups: AllowedGroups | None = value_of(ALLOWED_GROUPS)
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)
    spark_above: int = value_of(SPARK_ABOVE)


_allowed_topics = replace(
    ALLOWED_TOPICS,
    help="Topics of the target that may be written, by name or as a prefix with *; all others are refused. On the "
    "command line it overrides files and variables.",
)
_allowed_groups = replace(
    ALLOWED_GROUPS,
    help="Consumer groups whose positions may be committed, by name or as a prefix with *; groupOffsets with another "
    "group is refused. On the command line it overrides files and variables.",
    group="Kafka",
)
_engine = engine_settings(
    "What writes records: spark; local: this process, without Spark; auto: local for few records, which is faster than "
    "starting Spark, otherwise Spark. Under spark-submit, and with a master on other machines, Spark always writes. "
    "The report names the writer (written_by).",
    tasks="Number of Spark tasks that write at the same time.",
    tasks_by_default="the number of cores",
)
_settings = (
    *RestoreSettings.declared(),
    *S3_SETTINGS,
    PROGRESS_INTERVAL,
    *(setting for setting in KAFKA_SETTINGS if setting.name != "groupID"),
    CONNECT_TIMEOUT,
    _allowed_topics,
    _allowed_groups,
    *ARCHIVE_BOUNDS,
    *LOG_SETTINGS,
    *_engine,
    SPARK_ABOVE,
)

RESTORE = SettingsTable(
    "GAPLESS_RESTORE_",
    _settings,
    foreign_settings(_settings),
    common=(
        "archive",
        "topics",
        "region",
        "bootstrapServers",
        "caFile",
        "toTopic",
        "since",
        "until",
        "groupOffsets",
        "plan",
        "report",
    ),
)
"""``gapless restore``."""
