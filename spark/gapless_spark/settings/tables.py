"""The settings of ``gapless scan``, ``create`` and ``audit``: what is read, what is written, and their tables.

`create` accepts what the peer's program of that name accepts, and `engine`; `scan` accepts the same and more, under the
same environment variables, so both can use one properties file. Must not know Spark, or how Kafka is read; ``--help``
imports this package, so it must not import anything slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL, LOG_SETTINGS
from gapless_api.base.missing_code import EXIT_CODE
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, choice, integer
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_archive.store.access import S3_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_spark.settings.engine import ENGINE, READER
from gapless_spark.settings.values import file_or_object, files, state_place, topic_ids, words

if TYPE_CHECKING:
    from gapless_archive.store.object_store import ObjectAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings(TypedSettings):
    """The received events, and the expected ones."""

    topics: tuple[str, ...] = declare(
        "topics",
        "Topics with received events, separated by commas; their keys are topic_partition_offset.",
        parse=words,
        aliases=("topic",),
        required=True,
        metavar="TOPIC,…",
        group="What to read",
    )
    expect: tuple[str, ...] = declare(
        "expect",
        "Expected offsets, as topic:partition:first-last; repeat it, or separate several by commas. In a partition "
        "that is not listed, all offsets from the lowest to the highest received are expected.",
        parse=words,
        default=(),
        metavar="TOPIC:PARTITION:FIRST-LAST",
        repeatable=True,
        group="What to read",
    )
    expect_file: Path | None = declare(
        "expectFile",
        "File with such lines; blank lines and lines that begin with # are ignored.",
        parse=Path,
        group="What to read",
    )
    expect_inventory: tuple[Path, ...] = declare(
        "expectInventory",
        "Inventory that gapless inventory wrote on the sending side, with the expected offsets; repeat it, or separate "
        "several by commas. For each partition the newest one is used.",
        parse=files,
        default=(),
        aliases=("expectManifest",),
        metavar="FILE,…",
        repeatable=True,
        group="What to read",
    )
    expect_inventory_topic: str | None = declare(
        "expectInventoryTopic",
        "Topic to which the receiver writes status texts (its internalTopic), with inventories that gapless inventory "
        "sent over the link.",
        aliases=("expectManifestTopic",),
        metavar="TOPIC",
        group="What to read",
    )
    expect_topics: tuple[str, ...] = declare(
        "expectTopics",
        "Topics of the inventories to use, as the keys of events name them, separated by commas; others are not "
        "expected.",
        parse=words,
        default=(),
        shown_default="all",
        metavar="TOPIC,…",
        group="What to read",
    )
    new_generation: tuple[tuple[str, str], ...] = declare(
        "newGeneration",
        "An upstream topic that was deleted and recreated, as the keys of events name it, with its new topic ID; "
        "repeat it, or separate several by commas. Records that the state has already read belong to the old topic, "
        "all others to the new one.",
        parse=topic_ids,
        default=(),
        metavar="TOPIC:ID,…",
        repeatable=True,
        group="What to read",
    )
    include_unknown: bool = declare(
        "includeUnknown",
        "Whether the bundle also lists events that are unknown, because Kafka deleted records before an audit read "
        "them, or because an open transaction holds records back. Without it they are only counted.",
        parse=boolean,
        default=False,
        group="Output",
    )
    verify_key: Path | None = declare(
        "verifyKey",
        "Ed25519 public key (PEM); inventories without a valid signature of this key are refused.",
        parse=Path,
        group="What to read",
    )
    state: Path | ObjectAddress | None = declare(
        "state",
        "Folder, or s3://BUCKET/PREFIX (also s3a://), that stores what was received; a later audit with the same state "
        "reads only new records. An empty place starts from the beginning.",
        parse=state_place,
        metavar="DIR|URL",
        group="What to read",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings(TypedSettings):
    """What is written, and where."""

    limit: Literal["all", "first"] = declare(
        "limit",
        "all: every missing range; first: only the first range of each partition, from which resend sends all offsets.",
        parse=choice("all", "first"),
        default="all",
        group="Output",
        peer=True,
    )
    bundle: Path | ObjectAddress | None = declare(
        "resendFileName",
        "File for the bundle, or s3://BUCKET/KEY in an S3-compatible store; it is written completely or not at all.",
        parse=file_or_object,
        writes=True,
        shown_default="standard output",
        metavar="FILE|URL",
        group="Output",
        peer=True,
    )
    report: Path | None = declare("report", "File for a report in JSON.", parse=Path, writes=True, group="Output")
    html: Path | None = declare(
        "html",
        "File for an HTML page: which events are missing, where, and what to do next. It loads nothing.",
        parse=Path,
        writes=True,
        group="Output",
    )
    compare_with: Path | ObjectAddress | None = declare(
        "compareWith",
        "An older bundle, as FILE or s3://BUCKET/KEY: the report then lists which of its gaps have closed. If it "
        "cannot be read, the report contains the reason, and the job continues.",
        parse=file_or_object,
        replaced_by="resendFileName",
        metavar="FILE|URL",
        group="Output",
    )
    source_name: str = declare("sourceName", "Name of the source in the bundle.", default="", group="Output")
    signing_key: Path | None = declare(
        "signingKey",
        "Ed25519 private key (PEM) to sign the bundle with.",
        parse=Path,
        group="Output",
    )
    result_lines: bool = declare(
        "resultLines",
        "Whether to write report and bundle to standard output as JSON lines, for a program that reads the log; the "
        "bundle is then not written there in any other form.",
        parse=boolean,
        default=False,
        aliases=("resultLine",),
        group="Output",
    )
    result_bundle_limit: int = declare(
        "resultBundleLimit",
        "Maximum size of the compressed bundle in these lines; a larger bundle is left out.",
        parse=integer(0),
        default=900_000,
        metavar="BYTES",
        group="Output",
    )
    exit_code: bool = include(EXIT_CODE)
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)


SPARK_ABOVE = Setting(
    "sparkAbove",
    "With engine=auto, topics with more offsets than this are read by Spark, others by this process.",
    parse=integer(0, MAX_OFFSET),
    default=3_000_000,
    metavar="OFFSETS",
    group="Engine",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings(TypedSettings):
    """Which gaps topic is read, and what is inferred."""

    topic: str = declare(
        "topic",
        "The gaps topic, which the gap detector writes.",
        aliases=("topics",),
        required=True,
        peer=True,
        group="What to read",
    )
    infer: bool = declare(
        "infer",
        "Whether to add losses to the bundle that no record reports: windows missing between others, and the end of a "
        "window if the next one begins with a loss. Bundle and report mark them as inferred.",
        parse=boolean,
        default=False,
        group="Beyond the records",
    )
    infer_tails: Literal["beside-losses", "all"] = declare(
        "inferTails",
        "Of which windows to infer the end: beside-losses: if the next window begins with a loss; all: of all that "
        "have a later window, which misses no loss between the first and the last window, but sends nearly everything "
        "again.",
        parse=choice("beside-losses", "all"),
        default="beside-losses",
        group="Beyond the records",
    )
    include_stale: bool | None = declare(
        "includeStale",
        "Whether to add records of windows that the detector no longer tracks to the bundle. It does not update these: "
        "the events that they list may have arrived since, or may still be missing; an audit finds out.",
        parse=boolean,
        shown_default="false; true with infer",
        group="Beyond the records",
    )
    """``None`` if it is not set."""
    skip_stale: bool | None = declare(
        "skipStale",
        "Whether to leave these records out: the opposite of includeStale, which replaces it.",
        parse=boolean,
        group="Beyond the records",
    )
    """The opposite; at most one of the two is set, or they agree."""
    detector_windows: int = declare(
        "detectorWindows",
        "How many windows of each partition the detector remembers (its MAX_WINDOWS); it no longer tracks older ones.",
        parse=integer(1, 1_000_000),
        default=5,
        metavar="NUMBER",
        group="Beyond the records",
    )
    spark_above: int = value_of(SPARK_ABOVE)


_common = (
    *OutputSettings.declared(),
    *S3_SETTINGS,
    PROGRESS_INTERVAL,
    *KAFKA_SETTINGS,
    CONNECT_TIMEOUT,
    ALLOWED_TOPICS,
    *LOG_SETTINGS,
    *ENGINE,
)
_scan = (*ScanSettings.declared(), *_common, SPARK_ABOVE)
_create = (*(setting for setting in _scan if setting.peer), READER)
_audit = (*AuditSettings.declared(), *_common)

SCAN = SettingsTable(
    "AIRGAP_CREATE_",
    _scan,
    foreign_settings(_scan),
    other_prefixes=("GAPLESS_SCAN_",),
    common=(
        "topic",
        "bootstrapServers",
        "caFile",
        "resendFileName",
        "report",
        "html",
        "compareWith",
        "infer",
        "includeStale",
        "exitCode",
    ),
)
"""``gapless scan``: the peer's settings and our own."""
CREATE = SettingsTable("AIRGAP_CREATE_", _create, foreign_settings(_create), siblings=_scan)
"""``gapless create``: the peer's settings, and `engine`."""
AUDIT = SettingsTable(
    "GAPLESS_AUDIT_",
    _audit,
    foreign_settings(_audit),
    common=(
        "topics",
        "bootstrapServers",
        "caFile",
        "expectInventory",
        "state",
        "resendFileName",
        "report",
        "html",
        "compareWith",
        "exitCode",
    ),
)
"""``gapless audit``, which the peer does not have."""
