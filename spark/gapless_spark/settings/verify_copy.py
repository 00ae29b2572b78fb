"""Owns the settings of ``gapless verify-copy``: how two copies of a topic are compared, and how each is reached.

Must not know how they are compared.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from gapless_api.base.allowed_topics import ALLOWED_TOPICS
from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import Setting, SettingsTable, boolean, choice
from gapless_api.cli.reading_progress import PROGRESS_INTERVAL
from gapless_api.keys.trusted_keys import parse_keys
from gapless_archive.store.access import S3_SETTINGS
from gapless_kafka.access.settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_spark.settings.archive import REGION
from gapless_spark.settings.engine import engine_settings

_HOW, _CHECK = "How to compare", "Check a report"


def _ignored(text: str) -> tuple[Literal["headers", "timestamp"], ...]:
    known: dict[str, Literal["headers", "timestamp"]] = {
        "timestamps": "timestamp",
        "timestamp": "timestamp",
        "headers": "headers",
    }
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not words or any(word not in known for word in words):
        raise ValueError("timestamps, headers, or both with a comma between")
    return tuple(dict.fromkeys(known[word] for word in words))


_own = (
    Setting(
        "align",
        "Which records are compared with each other. offsets: those with the same offset; order: the first with the "
        "first, and so on in each partition, so that a lost record is one difference; auto: by offsets when both "
        "copies have the same topic ID, otherwise by order.",
        parse=choice("auto", "offsets", "order"),
        default="auto",
        shown_default="auto",
        metavar="auto|offsets|order",
        own=True,
        group=_HOW,
    ),
    Setting(
        "ignore",
        "What may differ: timestamps, headers, or both. It does not count in the digests either.",
        parse=_ignored,
        default=(),
        metavar="timestamps,headers",
        own=True,
        group=_HOW,
    ),
    Setting(
        "timestampType",
        "Whether records with another type of timestamp (CreateTime, LogAppendTime) are different. Otherwise the types "
        "are only counted.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group=_HOW,
    ),
    Setting(
        "commonOnly",
        "Whether only what both copies hold must be alike. Records that Kafka has deleted, or that are not archived "
        "yet, are listed all the same, and do not change the exit code. Damage does.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group=_HOW,
    ),
    replace(
        REGION,
        help="Region of an archive whose address names none.",
        required=False,
        shown_default="the only one of the archive",
        group=_HOW,
    ),
    Setting(
        "bSettings",
        "File with the settings by which B is reached (Kafka and object store), as key=value lines. Those of the "
        "command line then hold for A only; otherwise they hold for both.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_HOW,
    ),
    Setting("report", "File for the evidence in JSON.", parse=Path, metavar="FILE", own=True, group="Output"),
    Setting(
        "signingKey",
        "Ed25519 private key (PEM) to sign the report with.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="Output",
    ),
    Setting(
        "checkReport",
        "Report of an earlier comparison: check its signature, show it, and end as that comparison ended. Nothing is "
        "read otherwise; A and B are left out.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_CHECK,
    ),
    Setting(
        "trustedKeys",
        "Public keys that a report may be signed with, as NAME:KEY; KEY is the middle line of the key's PEM file.",
        parse=parse_keys,
        metavar="NAME:KEY,…",
        own=True,
        group=_CHECK,
    ),
)
_kafka = tuple(setting for setting in KAFKA_SETTINGS if setting.name != "bootstrapServers")
_reached_by = (*_kafka, CONNECT_TIMEOUT, *S3_SETTINGS)
_engine = engine_settings(
    "What reads: spark; local: this process, without Spark; auto: local for few offsets, because that is done before "
    "Spark would have started, otherwise Spark. Under spark-submit, and with a master on other machines, Spark always "
    "reads.",
    tasks="How many of Spark's tasks compare; each compares offsets of one partition or of many.",
)
_settings = (
    *_own,
    PROGRESS_INTERVAL,
    *_reached_by,
    ALLOWED_TOPICS,
    *LOG_SETTINGS,
    *_engine,
)
_FOREIGN = {**foreign_settings(_settings), "bootstrapServers": "the addresses of A and B name them"}

VERIFY_COPY = SettingsTable("GAPLESS_VERIFYCOPY_", _settings, _FOREIGN)
"""``gapless verify-copy``. The variables have no underscore in VERIFYCOPY: ``GAPLESS_VERIFY_`` is another command's."""
B_SETTINGS = SettingsTable("", _reached_by, foreign_settings(_reached_by))
"""The file of the setting `bSettings`."""
