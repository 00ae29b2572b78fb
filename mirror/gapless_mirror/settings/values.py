"""The settings of a mirror that belong to no cluster: what it copies, how, and what it does about losses.

Must not know what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL
from gapless_api.base.quantities import boolean, byte_count, choice, duration, integer, names
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_kafka.access.settings import CONNECT_TIMEOUT
from gapless_mirror.lanes.identity import mirror_name
from gapless_mirror.settings.engines import WORKERS, engine_name

WHAT, WORK, OUTPUT = "What to copy", "Who copies", "Output"
_HOW, _TRANSFORM, _LIMITS, _LOSS = "How to write", "Transform", "Limits", "Loss"

TRANSFORM_SOCKET = Setting(
    "transformSocket",
    "Socket of a gapless mirror evaluate, which evaluates the transform without access to Kafka and its passwords.",
    parse=Path,
    shown_default="this program evaluates it",
    metavar="FILE",
    group=_TRANSFORM,
)
MAX_BYTES_PER_SECOND = Setting(
    "maxBytesPerSecond",
    "Limit for keys and values together, divided among the workers of this host.",
    parse=byte_count(1),
    shown_default="no limit",
    metavar="BYTES",
    group=_LIMITS,
)
MAX_RECORDS_PER_SECOND = Setting(
    "maxRecordsPerSecond",
    "Limit for records, divided among the workers of this host.",
    parse=integer(1),
    shown_default="no limit",
    metavar="NUMBER",
    group=_LIMITS,
)
LIMIT_SETTINGS = (MAX_BYTES_PER_SECOND, MAX_RECORDS_PER_SECOND)
"""The settings that a limits file may contain."""
NAME = Setting(
    "name",
    "Name of the mirror. Workers with the same name share its lanes, and each run continues from the positions of "
    "the last one. Mirrors to the same target cluster need different names.",
    parse=mirror_name,
    default="mirror",
    metavar="NAME",
    group=WHAT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorValues(TypedSettings):
    """The values of these settings."""

    name: str = value_of(NAME)
    topic_refresh: float = declare(
        "topicRefresh",
        "How often the source is checked for new topics and partitions, which are copied from their beginning.",
        parse=duration(1),
        default=30.0,
        shown_default="30s",
        metavar="DURATION",
        group=WHAT,
    )
    start_at_group: str | None = declare(
        "startAtGroup",
        "Consumer group in the source at whose committed offsets a new mirror starts, such as that of the mirror that "
        "it replaces. It must have no members. Partitions without a committed offset start at their first record, and "
        "partitions that this mirror has copied before continue from its own positions.",
        metavar="GROUP",
        group=WHAT,
    )
    start_at_target: bool = declare(
        "startAtTarget",
        "For partitions without a position whose target has records, as after the control topic was deleted, or with a "
        "position that is older than the copies: find the position by comparing the last records of the target with "
        "the source, and continue there. Without a decision, such partitions stop. Give it for one run.",
        parse=boolean,
        default=False,
        group=WHAT,
    )
    copy_again: bool = declare(
        "copyAgain",
        "For partitions without a position whose target has records: copy from the start of the source log; for those "
        "whose position is older than the copies, from there. Records that were copied before are then in the target "
        "twice. Give it for one run.",
        parse=boolean,
        default=False,
        group=WHAT,
    )
    once: bool = declare(
        "once",
        "Copy up to the current ends of the source partitions, then exit.",
        parse=boolean,
        default=False,
        group=WHAT,
    )
    delivery: Literal["exactly-once", "at-least-once"] = declare(
        "delivery",
        "exactly-once: records and the new positions are written in one transaction; at-least-once: without "
        "transactions, so records may be duplicated after a failure.",
        parse=choice("exactly-once", "at-least-once"),
        default="exactly-once",
        group=_HOW,
    )
    commit_interval: float = declare(
        "commitInterval",
        "Maximum duration of a transaction; consumers of committed records see its records after that. At most 10s: a "
        "transaction that stays open for longer is reported as a stall.",
        parse=duration(0.01, 10),
        default=0.5,
        shown_default="0.5s",
        metavar="DURATION",
        group=_HOW,
    )
    compression: str = declare(
        "compression",
        "Compression of the batches that are written to the target.",
        parse=choice("none", "gzip", "snappy", "lz4", "zstd"),
        default="lz4",
        group=_HOW,
    )
    chosen_engine: str = declare(
        "engine",
        "Engine that copies. workers: processes of this program, which share the lanes with those on other hosts; "
        "spark: Spark tasks, which copy all lanes. Each engine continues from the positions of the other one.",
        parse=engine_name,
        default=WORKERS,
        metavar="workers|spark",
        group=WORK,
    )
    workers: int = declare(
        "workers",
        "Processes on this host. Workers on other hosts with the same name share the lanes with them.",
        parse=integer(1, 256),
        default=1,
        aliases=("numStreams",),
        metavar="NUMBER",
        group=WORK,
    )
    lanes: int = declare(
        "lanes",
        "Number of lanes into which the partitions are divided, which limits the number of workers. Fixed at the "
        "first run of the mirror.",
        parse=integer(1, 1000),
        default=8,
        metavar="NUMBER",
        group=WORK,
    )
    transform: str | None = declare(
        "transform",
        "SQL that is applied to each record: SELECT … FROM records [WHERE …], or WHERE … alone, over key, value, "
        "headers, topic, partition, offset and timestamp. It can leave records out, change key, value and headers "
        "(… AS value), and send records to another topic (… AS topic); columns that are not selected are not "
        "changed. Needs PySpark and Java, or transformSocket.",
        metavar="SQL",
        group=_TRANSFORM,
    )
    transform_topics: tuple[str, ...] | None = declare(
        "transformTopics",
        "Topics on the target to which the transform may send records. They must exist, with as many partitions as "
        "the source topics.",
        parse=names("topic names separated by commas"),
        metavar="TOPICS",
        repeatable=True,
        group=_TRANSFORM,
    )
    transform_socket: Path | None = include(TRANSFORM_SOCKET)
    max_bytes_per_second: int | None = include(MAX_BYTES_PER_SECOND)
    max_records_per_second: int | None = include(MAX_RECORDS_PER_SECOND)
    limits_file: Path | None = declare(
        "limitsFile",
        "File with lines maxBytesPerSecond=… and maxRecordsPerSecond=…. It is read again when it changes, and takes "
        "precedence over the settings.",
        parse=Path,
        group=_LIMITS,
    )
    on_data_loss: str = declare(
        "onDataLoss",
        "What to do when source records were deleted before they were copied, or a topic was recreated. fail: stop the "
        "partition, and copy the others; skip-and-record: record the lost offsets in the position, and continue after "
        "them.",
        parse=choice("fail", "skip-and-record"),
        default="fail",
        group=_LOSS,
    )
    on_bad_record: str = declare(
        "onBadRecord",
        "What to do when the target refuses a record: it is too large, or has a timestamp or no key where the topic "
        "does not allow that. It is found by smaller transactions. fail: the partition waits before it and tries "
        "again, and the others are copied; skip-and-record: record its offset in the position, and continue after it; "
        "park: the same, and write the record to parkingTopic.",
        parse=choice("fail", "skip-and-record", "park"),
        default="fail",
        group=_LOSS,
    )
    parking_topic: str | None = declare(
        "parkingTopic",
        "Topic of the target for records that are parked, unchanged but for one header with their origin. It is "
        "created with one partition and without retention. An existing one must have the same retention.",
        metavar="TOPIC",
        group=_LOSS,
    )
    on_target_loss: str = declare(
        "onTargetLoss",
        "What to do when the target has lost copies: its topic was deleted or recreated, or its log ends before the "
        "last copy. Records that expire in the target are no loss. fail: stop the partition, and copy the others; "
        "copy-again: record the loss in the position, and copy again from the start of the source log. Copies that the "
        "target still has are then in it twice.",
        parse=choice("fail", "copy-again"),
        default="fail",
        group=_LOSS,
    )
    heartbeat: bool = declare(
        "heartbeat",
        "Write a record for each lane to the source topic gapless_heartbeats every few seconds, and copy it, to tell "
        "an idle mirror from a broken one. Without the right to write there, the mirror runs without heartbeats.",
        parse=boolean,
        default=True,
        group=OUTPUT,
        switch=False,
    )
    look_interval: float = declare(
        "lookInterval",
        "How often both clusters are checked for lag and stalls. A problem that prevents copying for six "
        "checks in a row is reported as a stall.",
        parse=duration(0.1),
        default=5.0,
        shown_default="5s",
        metavar="DURATION",
        group=OUTPUT,
    )
    metrics_port: int | None = declare(
        "metricsPort",
        "Port for Prometheus metrics; further workers on this host use the next ports.",
        parse=integer(1, 65535),
        metavar="PORT",
        group=OUTPUT,
    )
    progress_interval: float = include(replace(PROGRESS_INTERVAL, default=10.0, shown_default="10", group=OUTPUT))
    report: Path | None = declare(
        "report",
        "File for a report in JSON.",
        parse=Path,
        writes=True,
        group=OUTPUT,
    )
    connect_timeout_seconds: float = value_of(CONNECT_TIMEOUT)
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)
