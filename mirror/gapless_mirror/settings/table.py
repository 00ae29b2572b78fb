"""The settings of ``gapless mirror``; must not know what they mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.missing_code import EXIT_CODE
from gapless_api.base.quantities import boolean, byte_count, choice, duration, integer
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_kafka.access.settings import CONNECT_TIMEOUT, settings_of_cluster
from gapless_kafka.topics.topic_choice import TOPIC_CHOICE_SETTINGS
from gapless_mirror.groups.choice import GROUP_SETTINGS
from gapless_mirror.lanes.identity import mirror_name
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, NEVER
from gapless_mirror.settings.engines import WORKERS, engine_name, engines
from gapless_mirror.settings.peer_settings import PEER_SETTINGS
from gapless_mirror.settings.transform_settings import TRANSFORM_SETTINGS
from gapless_mirror.topics.names import SAME_NAME, rename_template

_GROUP = "Topics of the target"
TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "rename",
        "Name of a topic in the target: {topic} is replaced by its name in the source, {source} by sourceName.",
        parse=rename_template,
        default=SAME_NAME,
        metavar="RULE",
        group=_GROUP,
    ),
    Setting("sourceName", "Value of {source} in rename.", default="", group=_GROUP),
    Setting(
        "targetName",
        "Value of {source} in the names of topics that were copied from the target, with the same rename rule. Such "
        "topics, and their copies, are not copied back. Mirrors of Gapless in the opposite direction are found without "
        "it.",
        default="",
        group=_GROUP,
    ),
    Setting(
        "createTopics",
        "Whether to create missing topics, with the configuration and the number of partitions of the source, and to "
        "add partitions when the source gets more.",
        parse=boolean,
        default=True,
        group=_GROUP,
    ),
    Setting(
        "replicationFactor",
        "Replication factor of created topics.",
        parse=integer(1, 1000),
        shown_default="that of the target's brokers",
        metavar="NUMBER",
        group=_GROUP,
    ),
    Setting(
        "provenance",
        "Whether records get the header gapless-mirror with the clusters that they came from, so that a mirror in the "
        "opposite direction does not copy them back. auto: if there is such a mirror; always: needed for loops of "
        "three clusters; never: the header is not read either.",
        parse=choice(AUTO, ALWAYS, NEVER),
        default=AUTO,
        group=_GROUP,
    ),
)


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
    text = f"Topics of the {cluster} that may be {verb}, by name or as a prefix with *; any other topic is not copied."
    return replace(ALLOWED_TOPICS, name=f"{cluster}AllowedTopics", help=text, group=heading)


LIMIT_SETTINGS = (
    Setting(
        "maxBytesPerSecond",
        "Limit for keys and values together, divided among the workers of this host.",
        parse=byte_count(1),
        shown_default="no limit",
        metavar="BYTES",
        group=_LIMITS,
    ),
    Setting(
        "maxRecordsPerSecond",
        "Limit for records, divided among the workers of this host.",
        parse=integer(1),
        shown_default="no limit",
        metavar="NUMBER",
        group=_LIMITS,
    ),
)
"""The settings that a limits file may contain."""
_own = (
    Setting(
        "name",
        "Name of the mirror. Workers with the same name share its lanes, and each run continues from the positions of "
        "the last one. Mirrors to the same target cluster need different names.",
        parse=mirror_name,
        default="mirror",
        metavar="NAME",
        group=_WHAT,
    ),
    *(replace(setting, group=_WHAT) for setting in TOPIC_CHOICE_SETTINGS),
    Setting(
        "topicRefresh",
        "How often the source is checked for new topics and partitions, which are copied from their beginning.",
        parse=duration(1),
        default=30.0,
        shown_default="30s",
        metavar="DURATION",
        group=_WHAT,
    ),
    Setting(
        "startAtGroup",
        "Consumer group in the source at whose committed offsets a new mirror starts, such as that of the mirror that "
        "it replaces. It must have no members. Partitions without a committed offset start at their first record, and "
        "partitions that this mirror has copied before continue from its own positions.",
        metavar="GROUP",
        group=_WHAT,
    ),
    Setting(
        "startAtTarget",
        "For partitions without a position whose target has records, as after the control topic was deleted, or with a "
        "position that is older than the copies: find the position by comparing the last records of the target with "
        "the source, and continue there. Without a decision, such partitions stop. Give it for one run.",
        parse=boolean,
        default=False,
        group=_WHAT,
    ),
    Setting(
        "copyAgain",
        "For partitions without a position whose target has records: copy from the start of the source log; for those "
        "whose position is older than the copies, from there. Records that were copied before are then in the target "
        "twice. Give it for one run.",
        parse=boolean,
        default=False,
        group=_WHAT,
    ),
    Setting(
        "once",
        "Copy up to the current ends of the source partitions, then exit.",
        parse=boolean,
        default=False,
        group=_WHAT,
    ),
    Setting(
        "delivery",
        "exactly-once: records and the new positions are written in one transaction; at-least-once: without "
        "transactions, so records may be duplicated after a failure.",
        parse=choice("exactly-once", "at-least-once"),
        default="exactly-once",
        group=_HOW,
    ),
    Setting(
        "commitInterval",
        "Maximum duration of a transaction; consumers of committed records see its records after that. At most 10s: a "
        "transaction that stays open for longer is reported as a stall.",
        parse=duration(0.01, 10),
        default=0.5,
        shown_default="0.5s",
        metavar="DURATION",
        group=_HOW,
    ),
    Setting(
        "compression",
        "Compression of the batches that are written to the target.",
        parse=choice("none", "gzip", "snappy", "lz4", "zstd"),
        default="lz4",
        group=_HOW,
    ),
    Setting(
        "engine",
        "Engine that copies. workers: processes of this program, which share the lanes with those on other hosts; "
        "spark: Spark tasks, which copy all lanes. Each engine continues from the positions of the other one.",
        parse=engine_name,
        default=WORKERS,
        metavar="workers|spark",
        group=_WORK,
    ),
    Setting(
        "workers",
        "Processes on this host. Workers on other hosts with the same name share the lanes with them.",
        parse=integer(1, 256),
        default=1,
        aliases=("numStreams",),
        metavar="NUMBER",
        group=_WORK,
    ),
    Setting(
        "lanes",
        "Number of lanes into which the partitions are divided, which limits the number of workers. Fixed at the "
        "first run of the mirror.",
        parse=integer(1, 1000),
        default=8,
        metavar="NUMBER",
        group=_WORK,
    ),
    *TRANSFORM_SETTINGS,
    *LIMIT_SETTINGS,
    Setting(
        "limitsFile",
        "File with lines maxBytesPerSecond=… and maxRecordsPerSecond=…. It is read again when it changes, and takes "
        "precedence over the settings.",
        parse=Path,
        group=_LIMITS,
    ),
    Setting(
        "onDataLoss",
        "What to do when source records were deleted before they were copied, or a topic was recreated. fail: stop the "
        "partition, and copy the others; skip-and-record: record the lost offsets in the position, and continue after "
        "them.",
        parse=choice("fail", "skip-and-record"),
        default="fail",
        group=_LOSS,
    ),
    Setting(
        "onBadRecord",
        "What to do when the target refuses a record: it is too large, or has a timestamp or no key where the topic "
        "does not allow that. It is found by smaller transactions. fail: the partition waits before it and tries "
        "again, and the others are copied; skip-and-record: record its offset in the position, and continue after it; "
        "park: the same, and write the record to parkingTopic.",
        parse=choice("fail", "skip-and-record", "park"),
        default="fail",
        group=_LOSS,
    ),
    Setting(
        "parkingTopic",
        "Topic of the target for records that are parked, unchanged but for one header with their origin. It is "
        "created with one partition and without retention. An existing one must have the same retention.",
        metavar="TOPIC",
        group=_LOSS,
    ),
    Setting(
        "onTargetLoss",
        "What to do when the target has lost copies: its topic was deleted or recreated, or its log ends before the "
        "last copy. Records that expire in the target are no loss. fail: stop the partition, and copy the others; "
        "copy-again: record the loss in the position, and copy again from the start of the source log. Copies that the "
        "target still has are then in it twice.",
        parse=choice("fail", "copy-again"),
        default="fail",
        group=_LOSS,
    ),
    Setting(
        "heartbeat",
        "Write a record for each lane to the source topic gapless_heartbeats every few seconds, and copy it, to tell "
        "an idle mirror from a broken one. Without the right to write there, the mirror runs without heartbeats.",
        parse=boolean,
        default=True,
        group=_OUTPUT,
        switch=False,
    ),
    Setting(
        "lookInterval",
        "How often both clusters are checked for lag and stalls. A problem that prevents copying for six "
        "checks in a row is reported as a stall.",
        parse=duration(0.1),
        default=5.0,
        shown_default="5s",
        metavar="DURATION",
        group=_OUTPUT,
    ),
    Setting(
        "metricsPort",
        "Port for Prometheus metrics; further workers on this host use the next ports.",
        parse=integer(1, 65535),
        metavar="PORT",
        group=_OUTPUT,
    ),
    replace(PROGRESS_INTERVAL, default=10.0, shown_default="10", group=_OUTPUT),
    Setting(
        "report",
        "File for a report in JSON.",
        parse=Path,
        writes=True,
        group=_OUTPUT,
    ),
)
JSON = Setting("json", "Print JSON instead of a table.", parse=boolean, default=False, group=_OUTPUT)
PLAN = Setting(
    "plan",
    "Show what would be written, and write nothing.",
    parse=boolean,
    default=False,
    aliases=("dryRun",),
    group=_OUTPUT,
)
IMPORT_OUTPUT = (
    Setting(
        "print",
        "What to print: the settings file, the manifests, or both.",
        parse=choice("properties", "manifests", "all"),
        default="all",
        group=_OUTPUT,
    ),
    Setting("namespace", "Namespace in the manifests.", metavar="NAME", group=_OUTPUT),
    Setting(
        "filesFolder",
        "Folder in which the settings expect secrets and certificates that FILE does not have in a file.",
        default="secrets",
        metavar="FOLDER",
        group=_OUTPUT,
    ),
)
"""Settings of the subcommands only."""
_OF_SUBCOMMANDS = (JSON, PLAN, EXIT_CODE, *IMPORT_OUTPUT)
MIRROR = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        _allowed(SOURCE, "Source cluster", "read"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        _allowed(TARGET, "Target cluster", "written"),
        replace(CONNECT_TIMEOUT, group=_WORK),
        *_own,
        *(setting for engine in engines().values() for setting in engine.settings),
        *TOPIC_SETTINGS,
        *GROUP_SETTINGS,
        *PEER_SETTINGS,
        *LOG_SETTINGS,
    ),
    siblings=_OF_SUBCOMMANDS,
    common=(
        "name",
        "sourceBootstrapServers",
        "targetBootstrapServers",
        "topics",
        "topicPattern",
        "exclude",
        "rename",
        "once",
        "groups",
        "onDataLoss",
        "onTargetLoss",
        "report",
    ),
)
_SHARED = ("name", "connectTimeout")
STATUS = SettingsTable(
    "GAPLESS_MIRROR_",
    (
        *settings_of_cluster(SOURCE, required=True, group="Source cluster"),
        *settings_of_cluster(TARGET, required=True, group="Target cluster"),
        *(setting for setting in MIRROR.settings if setting.name in _SHARED),
        JSON,
    ),
    foreign={setting.name: "a setting of gapless mirror itself" for setting in MIRROR.settings},
    siblings=(*MIRROR.settings, *_OF_SUBCOMMANDS),
    common=("name", "sourceBootstrapServers", "sourceCaFile", "targetBootstrapServers", "targetCaFile", "json"),
)
