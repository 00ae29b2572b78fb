"""The settings of ``gapless verify``: its own, and those of scan and audit; must not know what they mean.

It takes all settings of scan and audit except for those of their bundle, so that it can read their files of settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, value_of
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.settings.values import file_or_object

if TYPE_CHECKING:
    from gapless_archive.store.object_store import ObjectAddress

WAYS = ("scan", "audit")
_GROUP = "What to compare"
_KEPT_OF_OUTPUT = ("report", "html", "progressInterval", "exitCode")


def _against(text: str) -> str | Path | ObjectAddress:
    return text if text in WAYS else file_or_object(text)


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(word.strip()) for word in text.split(",") if word.strip())


_read = {
    setting.name: replace(setting, required=False)
    for setting in (*AUDIT.settings, *SCAN.settings)
    if setting.name != "topic" and (setting.group != "Output" or setting.name in _KEPT_OF_OUTPUT)
}
_read["topics"] = replace(
    _read["topics"], help="Topics to read: for audit the topics with received events, for scan the gaps topic."
)
_read["html"] = replace(
    _read["html"],
    help="File for an HTML page: which gaps of the older bundle have closed, and what to do next. It loads nothing.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(TypedSettings):
    """What an older bundle is compared with."""

    against: str | Path | ObjectAddress = declare(
        "against",
        "scan or audit: read Kafka now, with the settings below; FILE or s3://BUCKET/KEY: a newer bundle, which needs "
        "neither Kafka nor Spark.",
        parse=_against,
        default="audit",
        metavar="scan|audit|FILE|URL",
        group=_GROUP,
    )
    resend_report: tuple[Path, ...] = declare(
        "resendReport",
        "Report of a resend of the older bundle (gapless resend --report), or a folder with reports; repeat it for "
        "several. They list the events that were filled, and those that can never be sent.",
        parse=_paths,
        default=(),
        repeatable=True,
        metavar="FILE",
        group=_GROUP,
    )
    bootstrap_servers: str | None = value_of(_read["bootstrapServers"])
    topics: tuple[str, ...] | None = value_of(_read["topics"])


_settings = (*VerifySettings.declared(), *_read.values())
_elsewhere = {
    setting.name: "it applies only to the output of scan and audit"
    for setting in (*AUDIT.settings, *SCAN.settings)
    if setting.name not in {*_read, "topic"}
}

VERIFY = SettingsTable(
    "GAPLESS_VERIFY_",
    _settings,
    {**foreign_settings(_settings), **_elsewhere},
    common=(
        "against",
        "resendReport",
        "topics",
        "bootstrapServers",
        "caFile",
        "state",
        "report",
        "html",
        "exitCode",
    ),
)
"""``gapless verify``. The settings for reading Kafka are required only if it reads Kafka."""
