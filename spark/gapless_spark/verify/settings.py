"""Owns the settings of ``gapless verify``: its own, and what scan and audit need to read; must not know what they mean.

Of scan and audit it takes all but where their bundle goes, so that a file of theirs serves as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import Setting, SettingsTable
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.settings.values import file_or_object

if TYPE_CHECKING:
    from gapless_archive.store.object_store import ObjectAddress

WAYS = ("scan", "audit")
_GROUP = "What to compare"
_KEPT_OF_OUTPUT = ("report", "html", "progressInterval")


def _against(text: str) -> str | Path | ObjectAddress:
    return text if text in WAYS else file_or_object(text)


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(word.strip()) for word in text.split(",") if word.strip())


_own = (
    Setting(
        "against",
        "scan or audit: look now, with the settings below; FILE or s3://BUCKET/KEY: a newer bundle, and then neither "
        "Kafka nor Spark is needed.",
        parse=_against,
        default="audit",
        shown_default="audit",
        metavar="scan|audit|FILE|URL",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "resendReport",
        "Report of a resend of the older bundle (gapless resend --report), or a folder of such; repeat it for several. "
        "They tell what was filled, and what can never be sent.",
        parse=_paths,
        default=(),
        repeatable=True,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
)
_read = {
    setting.name: replace(setting, required=False)
    for setting in (*AUDIT.settings, *SCAN.settings)
    if setting.name != "topic" and (setting.group != "Output" or setting.name in _KEPT_OF_OUTPUT)
}
_read["topics"] = replace(
    _read["topics"], help="What to read: for audit the topics with received events, for scan the one gaps topic."
)
_read["html"] = replace(
    _read["html"],
    help="File for a page to read in a browser: what became of the older bundle, what to do next. It loads nothing.",
)
_settings = (*_own, *_read.values())
_elsewhere = {
    setting.name: "it steers what scan and audit write"
    for setting in (*AUDIT.settings, *SCAN.settings)
    if setting.name not in {*_read, "topic"}
}

VERIFY = SettingsTable("GAPLESS_VERIFY_", _settings, {**foreign_settings(_settings), **_elsewhere})
"""``gapless verify``. What a look at Kafka needs is required only when there is one."""
NEEDED_TO_LOOK = ("bootstrapServers", "topics")
