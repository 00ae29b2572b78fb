"""Owns the settings of ``gapless mirror``; must not know what they mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.quantities import byte_count, duration
from gapless_api.base.settings import Setting, SettingsTable, boolean, choice, integer
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_kafka.access.settings import CONNECT_TIMEOUT, settings_of_cluster
from gapless_kafka.mirror.groups.choice import GROUP_SETTINGS
from gapless_kafka.mirror.lanes.identity import mirror_name
from gapless_kafka.mirror.settings.engines import WORKERS, engine_name, engines
from gapless_kafka.mirror.settings.peer_settings import PEER_SETTINGS
from gapless_kafka.mirror.settings.topic_settings import TOPIC_SETTINGS
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS

SOURCE, TARGET = "source", "target"
_WHAT, _HOW, _WORK, _LIMITS, _LOSS, _OUTPUT = (
    "What to copy",
    "How to write",
    "Who copies",
    "Limits",
    "Loss",
    "Output",
)


def _allowed(cluster: str, heading: str, verb: str) -> Setting:
    told = f"Topics of the {cluster} that may be {verb}, by name or as a prefix with *; any other topic is not copied."
    return replace(ALLOWED_TOPICS, name=f"{cluster}AllowedTopics", help=told, group=heading)


LIMIT_SETTINGS = (
    Setting(
        "maxBytesPerSecond",
        "Limit for keys and values together, divided among the workers of this host.",
        parse=byte_count(1),
        shown_default="no limit",
        metavar="BYTES",
        own=True,
        group=_LIMITS,
    ),
    Setting(
        "maxRecordsPerSecond",
        "Limit for records, divided among the workers of this host.",
        parse=integer(1),
        shown_default="no limit",
        metavar="NUMBER",
        own=True,
        group=_LIMITS,
    ),
)
"""Those that a file of limits may hold."""
_own = (
    Setting(
        "name",
        "Name of the mirror. Workers with the same name share its work, and every run continues where the last one "
        "was; two mirrors to one cluster need two names.",
        parse=mirror_name,
        default="mirror",
        shown_default="mirror",
        metavar="NAME",
        own=True,
        group=_WHAT,
    ),
    *(replace(one, group=_WHAT) for one in TOPIC_CHOICE_SETTINGS),
    Setting(
        "topicRefresh",
        "How often new topics and partitions are looked for; they are copied from their beginning.",
        parse=duration(1),
        default=30.0,
        shown_default="30s",
        metavar="DURATION",
        own=True,
        group=_WHAT,
    ),
    Setting(
        "startAtGroup",
        "Consumer group of the source at whose positions the mirror begins, such as that of the mirror before it; it "
        "must have no members. Partitions without a position of the group begin at their first record, and those that "
        "this mirror has copied before continue at its own positions.",
        metavar="GROUP",
        own=True,
        group=_WHAT,
    ),
    Setting(
        "once",
        "Copy what is there now and end.",
        parse=boolean,
        default=False,
        shown_default="false",
        metavar="true|false",
        switch=True,
        own=True,
        group=_WHAT,
    ),
    Setting(
        "delivery",
        "exactly-once: records and the position behind them are written in one transaction; at-least-once: without "
        "transactions, so that records may be repeated after a failure.",
        parse=choice("exactly-once", "at-least-once"),
        default="exactly-once",
        shown_default="exactly-once",
        metavar="exactly-once|at-least-once",
        own=True,
        group=_HOW,
    ),
    Setting(
        "commitInterval",
        "Longest time that records wait in a transaction; readers of committed records see them after it. At most 10s: "
        "a transaction that stays open for longer is reported as a stall.",
        parse=duration(0.01, 10),
        default=0.5,
        shown_default="0.5s",
        metavar="DURATION",
        own=True,
        group=_HOW,
    ),
    Setting(
        "compression",
        "How batches are compressed for the target.",
        parse=choice("none", "gzip", "snappy", "lz4", "zstd"),
        default="lz4",
        shown_default="lz4",
        metavar="none|gzip|snappy|lz4|zstd",
        own=True,
        group=_HOW,
    ),
    Setting(
        "engine",
        "What copies. workers: processes of this program, which share the lanes with those of other hosts; spark: "
        "tasks of Spark, which hold all lanes. Each engine continues where the other one stopped.",
        parse=engine_name,
        default=WORKERS,
        shown_default=WORKERS,
        metavar="workers|spark",
        own=True,
        group=_WORK,
    ),
    Setting(
        "workers",
        "Processes on this host. Further hosts with the same name share the work, too.",
        parse=integer(1, 256),
        default=1,
        shown_default="1",
        aliases=("numStreams",),
        metavar="NUMBER",
        own=True,
        group=_WORK,
    ),
    Setting(
        "lanes",
        "Into how many parts the work is divided, at most one worker each; fixed when the mirror runs first.",
        parse=integer(1, 1000),
        default=8,
        shown_default="8",
        metavar="NUMBER",
        own=True,
        group=_WORK,
    ),
    *LIMIT_SETTINGS,
    Setting(
        "limitsFile",
        "File with lines maxBytesPerSecond=… and maxRecordsPerSecond=…, which is read again when it changes and wins.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_LIMITS,
    ),
    Setting(
        "onDataLoss",
        "What happens when source records are gone before they were copied, or a topic was recreated. fail: the "
        "partition stops, and the rest goes on; skip-and-record: the position records the lost offsets, and copying "
        "continues behind them.",
        parse=choice("fail", "skip-and-record"),
        default="fail",
        shown_default="fail",
        metavar="fail|skip-and-record",
        own=True,
        group=_LOSS,
    ),
    Setting(
        "heartbeat",
        "Write a record to the topic gapless_heartbeats of the source every few seconds for each lane, and copy it, so "
        "that an idle mirror differs from a broken one. Without the right to write there, it works without.",
        parse=boolean,
        default=True,
        shown_default="true",
        metavar="true|false",
        own=True,
        group=_OUTPUT,
    ),
    Setting(
        "lookInterval",
        "How often both clusters are looked at for the reason of a standstill, and for lag. What has kept something "
        "from being copied for six looks is reported.",
        parse=duration(0.1),
        default=5.0,
        shown_default="5s",
        metavar="DURATION",
        own=True,
        group=_OUTPUT,
    ),
    Setting(
        "metricsPort",
        "Port at which metrics are served for Prometheus; further workers of this host use the ports behind it.",
        parse=integer(1, 65535),
        metavar="PORT",
        own=True,
        group=_OUTPUT,
    ),
    replace(PROGRESS_INTERVAL, default=10.0, shown_default="10", group=_OUTPUT),
    Setting(
        "report",
        "File for a report in JSON.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_OUTPUT,
    ),
)
MIRROR = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        _allowed(SOURCE, "Source cluster", "read"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        _allowed(TARGET, "Target cluster", "written"),
        replace(CONNECT_TIMEOUT, group=_WORK),
        *_own,
        *(one for engine in engines().values() for one in engine.settings),
        *TOPIC_SETTINGS,
        *GROUP_SETTINGS,
        *PEER_SETTINGS,
        *LOG_SETTINGS,
    ),
)
_SHARED = ("name", "connectTimeout")
STATUS = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        *(one for one in MIRROR.settings if one.name in _SHARED),
        Setting(
            "json",
            "Print JSON instead of a table.",
            parse=boolean,
            default=False,
            shown_default="false",
            metavar="true|false",
            switch=True,
            own=True,
            group=_OUTPUT,
        ),
    ),
    foreign={one.name: "a setting of gapless mirror itself" for one in MIRROR.settings},
)
