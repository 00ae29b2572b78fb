"""Owns the settings of ``gapless archive``: where to, when segments are finished, and how it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import byte_count, duration
from gapless_api.base.settings import Setting, SettingsTable, boolean, choice, integer, seconds
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_archive.selection import ARCHIVE as PLACE_OF_ARCHIVE
from gapless_archive.selection import REGION as REGION_OF_ARCHIVE
from gapless_archive.store.access import S3_SETTINGS, S3_WRITING_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_spark.settings.engine import engine_settings

_WHERE, _WHEN = "Where to", "When"


ARCHIVE_PLACE = replace(PLACE_OF_ARCHIVE, group=_WHERE)
REGION = replace(
    REGION_OF_ARCHIVE,
    help="Name of the cluster in the archive; one archive can hold topics of several clusters.",
    required=True,
    shown_default="",
    aliases=(),
    group=_WHERE,
)
_own = (
    *TOPIC_CHOICE_SETTINGS,
    ARCHIVE_PLACE,
    REGION,
    Setting(
        "layout",
        "How keys and objects look: gapless; kafka-replicator: as that program reads and writes them, behind what it "
        "has written there. That layout stores null as empty and no timestamp types, and holds one generation of a "
        "topic.",
        parse=choice("gapless", "kafka-replicator"),
        default="gapless",
        metavar="gapless|kafka-replicator",
        own=True,
        group=_WHERE,
    ),
    Setting(
        "once",
        "Whether to archive what there is now and end. Otherwise the program runs until it is stopped.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "maxSegmentRecords",
        "Records of a partition that make a segment.",
        parse=integer(1),
        default=1_000_000,
        shown_default="1000000",
        aliases=("maxSegmentMessages",),
        metavar="NUMBER",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "maxSegmentBytes",
        "Bytes of keys, values and headers that make a segment, and also an object of several segments.",
        parse=byte_count(1),
        default=100 << 20,
        shown_default="100MiB",
        aliases=("maxSegmentSize",),
        metavar="SIZE",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "maxSegmentAge",
        "How long a record waits at most before it is archived, if fewer than a segment's records have come.",
        parse=duration(0),
        default=300.0,
        shown_default="5m",
        metavar="DURATION",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "topicThresholds",
        "File (YAML or JSON) with other thresholds for some topics: a name, or a prefix that ends with *, and below it "
        "maxSegmentRecords, maxSegmentBytes and maxSegmentAge.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "triggerInterval",
        "Seconds from one look at the topics to the next.",
        parse=seconds(0.1, 3600),
        default=10.0,
        shown_default="10",
        metavar="SECONDS",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "cycleBytes",
        "About how many bytes are read for each core before they are committed. A kill loses at most this work.",
        parse=byte_count(1),
        default=1 << 30,
        shown_default="1GiB",
        metavar="SIZE",
        own=True,
        group=_WHEN,
    ),
    Setting(
        "hold",
        "Legal hold: true, so that nothing of the topics is deleted by anyone; false to release them, also what "
        "gapless segments hold has held.",
        parse=boolean,
        shown_default="as it is",
        metavar="true|false",
        own=True,
        group=_WHERE,
    ),
    Setting(
        "metricsPort",
        "Port at which metrics are served for Prometheus, on all addresses.",
        parse=integer(1, 65535),
        metavar="PORT",
        own=True,
        group="Output",
    ),
    Setting("report", "File for a report in JSON.", parse=Path, metavar="FILE", own=True, group="Output"),
)
_group_id = Setting(
    "groupID",
    "Consumer group under which Kafka shows how far the archive is, for tools that watch lag; none for no group. The "
    "archive itself does not use it.",
    shown_default="gapless-archive-REGION",
    own=True,
    group="Kafka",
)
_engine = engine_settings(
    "What reads Kafka: spark; local: this process, without Spark; auto: local for little, because that is done before "
    "Spark would have started, otherwise Spark. Under spark-submit, and with a master on other machines, Spark always "
    "reads.",
    tasks_by_default="two for each core, fewer for little",
)
_settings = (
    *_own,
    PROGRESS_INTERVAL,
    *(_group_id if setting.name == "groupID" else setting for setting in KAFKA_SETTINGS),
    CONNECT_TIMEOUT,
    ALLOWED_TOPICS,
    *S3_SETTINGS,
    *S3_WRITING_SETTINGS,
    *LOG_SETTINGS,
    *_engine,
)
ARCHIVE = SettingsTable("GAPLESS_ARCHIVE_", _settings, foreign_settings(_settings))
"""``gapless archive``, which the peer does not have as a program."""
