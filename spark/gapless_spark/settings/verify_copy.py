"""The settings of ``gapless verify-copy``: what is compared of two copies of a topic, and how to reach each copy.

Must not know how copies are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gapless_api.base.allowed_topics import ALLOWED_TOPICS, AllowedTopics
from gapless_api.base.archive_bounds import ARCHIVE_BOUNDS
from gapless_api.base.log_settings import LOG_FILE, LOG_LEVEL, LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, choice
from gapless_api.base.settings import SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_api.keys.trusted_keys import parse_keys
from gapless_archive.store.access import S3_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_spark.settings.archive import REGION
from gapless_spark.settings.engine import engine_settings

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import Ignored

_HOW, _CHECK = "How to compare", "Check a report"


def _ignored(text: str) -> tuple[Ignored, ...]:
    known: dict[str, Ignored] = {
        "timestamps": "timestamp",
        "timestamp": "timestamp",
        "headers": "headers",
        "null-as-empty": "nullAsEmpty",
        "compacted": "compacted",
    }
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not words or any(word not in known for word in words):
        raise ValueError("one or several of timestamps, headers, null-as-empty and compacted, separated by commas")
    return tuple(dict.fromkeys(known[word] for word in words))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCopySettings(TypedSettings):
    """How two copies of a topic are compared, and what is written."""

    align: Literal["auto", "offsets", "order"] = declare(
        "align",
        "How records are aligned. offsets: by equal offsets; order: by their order in each partition, where a lost "
        "record is one difference; auto: by offsets if both copies have the same topic ID, otherwise by order.",
        parse=choice("auto", "offsets", "order"),
        default="auto",
        group=_HOW,
    )
    ignore: tuple[Ignored, ...] = declare(
        "ignore",
        "What may differ. timestamps, headers: these parts of records; null-as-empty: null keys, values and header "
        "values that are empty in the other copy; compacted: records that compaction removed from one copy. The "
        "digests ignore timestamps, headers and nulls as well.",
        parse=_ignored,
        default=(),
        metavar="timestamps,headers,null-as-empty,compacted",
        group=_HOW,
    )
    timestamp_type: bool = declare(
        "timestampType",
        "Whether records with different timestamp types (CreateTime, LogAppendTime) are different. Otherwise the types "
        "are only counted.",
        parse=boolean,
        default=False,
        group=_HOW,
    )
    common_only: bool = declare(
        "commonOnly",
        "Whether to compare only the offsets that both copies hold. Records that Kafka has deleted, or that are not "
        "archived yet, are still listed, but do not change the exit code; damaged segments do.",
        parse=boolean,
        default=False,
        group=_HOW,
    )
    region: str | None = include(
        replace(
            REGION,
            help="Region of an archive whose address names none.",
            required=False,
            shown_default="the only one of the archive",
            group=_HOW,
        )
    )
    b_settings: Path | None = declare(
        "bSettings",
        "File with the settings to reach B (Kafka and object store), as key=value lines. Those on the command line "
        "then apply to A only; otherwise they apply to both.",
        parse=Path,
        group=_HOW,
    )
    report: Path | None = declare("report", "File for the report in JSON.", parse=Path, writes=True, group="Output")
    signing_key: Path | None = declare(
        "signingKey",
        "Ed25519 private key (PEM) to sign the report with.",
        parse=Path,
        group="Output",
    )
    check_report: Path | None = declare(
        "checkReport",
        "Report of an earlier comparison: check its signature, print it, and return its exit code. A and B are not "
        "given, and nothing else is read.",
        parse=Path,
        group=_CHECK,
    )
    trusted_keys: Mapping[str, str] | None = declare(
        "trustedKeys",
        "Public keys of trusted signers of reports, as NAME:KEY; KEY is the middle line of the key's PEM file.",
        parse=parse_keys,
        metavar="NAME:KEY,…",
        group=_CHECK,
    )
    allowed_topics: AllowedTopics | None = value_of(ALLOWED_TOPICS)
    log_level: str = value_of(LOG_LEVEL)
    log_file_name: Path | None = value_of(LOG_FILE)


_kafka = tuple(setting for setting in KAFKA_SETTINGS if setting.name not in {"bootstrapServers", "connection"})
_reached_by = (*_kafka, CONNECT_TIMEOUT, *S3_SETTINGS)
_engine = engine_settings(
    "What reads: spark; local: this process, without Spark; auto: local for few offsets, which is faster than starting "
    "Spark, otherwise Spark. Under spark-submit, and with a master on other machines, Spark always reads.",
    tasks="Number of Spark tasks that compare; a task compares offsets of one or several partitions.",
)
_settings = (
    *VerifyCopySettings.declared(),
    PROGRESS_INTERVAL,
    *_reached_by,
    ALLOWED_TOPICS,
    *ARCHIVE_BOUNDS,
    *LOG_SETTINGS,
    *_engine,
)
_FOREIGN = {**foreign_settings(_settings), "bootstrapServers": "the addresses of A and B contain them"}

VERIFY_COPY = SettingsTable(
    "GAPLESS_VERIFYCOPY_",
    _settings,
    _FOREIGN,
    common=("align", "ignore", "commonOnly", "region", "caFile", "bSettings", "engine", "report", "signingKey"),
)
"""``gapless verify-copy``. The prefix has no underscore in VERIFYCOPY, because ``gapless verify`` uses
``GAPLESS_VERIFY_``."""
B_SETTINGS = SettingsTable("", _reached_by, foreign_settings(_reached_by))
"""The file of the setting `bSettings`."""
