"""Owns the settings of ``gapless inventory``; must not know what they do.

What a resend has, too, has the same name, so that one properties file serves both; the live sender's does, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.settings import Setting, SettingsTable, boolean, integer
from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_kafka.access.settings import KAFKA_SETTINGS
from gapless_sender.settings.kafka import KAFKA
from gapless_sender.settings.link import LINK
from gapless_sender.settings.output import OUTPUT
from gapless_sender.settings.selection import SELECTION
from gapless_sender.settings.values import rate, topics

_WHAT = "What to look at"
_OUTPUT = "Output"
_SENDING = "Over the link"

_named = {setting.name: setting for setting in (*SELECTION, *LINK, *OUTPUT, *KAFKA)}


def _as_resend(name: str, **changes: object) -> Setting:
    return replace(_named[name], **changes)  # type: ignore[arg-type]


_settings = (
    Setting(
        "topics",
        "Topics, separated by commas, as Kafka names them on this side or as ids do.",
        parse=topics,
        aliases=("topic",),
        shown_default="those of topicTranslations",
        metavar="TOPIC,…",
        own=True,
        group=_WHAT,
    ),
    *(_as_resend(name, group=_WHAT) for name in ("partitionStartValue", "partitionStopValue", "topicTranslations")),
    Setting(
        "absent",
        "Whether to find the offsets that are no events (transaction markers, what was compacted or aborted), which "
        "takes reading everything; without it they are expected, and audited as missing.",
        parse=boolean,
        default=False,
        shown_default="false",
        metavar="true|false",
        switch=True,
        own=True,
        group=_WHAT,
    ),
    Setting(
        "previous",
        "An older inventory made with absent: what it has looked at is not read again.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_WHAT,
    ),
    Setting(
        "absentLimit",
        "Most ranges of absent offsets that are kept, at some 16 bytes of memory each; more end the work.",
        parse=integer(1),
        default=4_000_000,
        shown_default="4000000",
        metavar="RANGES",
        own=True,
        group=_WHAT,
    ),
    Setting(
        "inventory",
        "File for the inventory; it is written completely or not at all.",
        parse=Path,
        aliases=("manifest",),
        shown_default="standard output, unless it is sent",
        metavar="FILE",
        own=True,
        group=_OUTPUT,
    ),
    Setting(
        "sourceName", "What the inventory shall say about where it comes from.", own=True, default="", group=_OUTPUT
    ),
    Setting(
        "signingKey",
        "Ed25519 private key (PEM) to sign the inventory with.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_OUTPUT,
    ),
    *KAFKA_SETTINGS,
    *(_as_resend(name) for name in ("isolationLevel", "connectTimeout", "stallTimeout")),
    _as_resend(
        "targetIP",
        required=False,
        help="Address or name of the receiver, to which the inventory is sent as clear status texts; they reach the "
        "topic that the receiver calls internalTopic.",
        group=_SENDING,
    ),
    _as_resend("targetPort", required=False, group=_SENDING),
    *(_as_resend(name, group=_SENDING) for name in ("nic", "sourceAddress", "dscp", "ttl", "payloadSize")),
    _as_resend(
        "copies",
        default=3,
        shown_default="3",
        help="How often the inventory is sent, one time after the other, for a lost datagram makes it useless.",
        group=_SENDING,
    ),
    Setting(
        "eps",
        "Most datagrams per second; 0 or less for no limit.",
        parse=rate,
        default=200.0,
        shown_default="200",
        metavar="DATAGRAMS",
        group=_SENDING,
    ),
    _as_resend("id", default="Inventory", shown_default="Inventory"),
    _as_resend("progressInterval", help="Seconds between progress lines (JSON on standard error); 0 for none."),
    *LOG_SETTINGS,
)

INVENTORY = SettingsTable(
    prefix="GAPLESS_INVENTORY_",
    old_prefix="GAPLESS_MANIFEST_",
    settings=_settings,
    foreign={**foreign_settings(_settings), "tcp*": "it belongs to the TCP transport of the live stream"},
)
"""Everything ``gapless inventory`` can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySettings(TypedSettings):
    """What one run was told, but for how Kafka is reached."""

    topics: tuple[str, ...] | None
    window_start: int = setting("partitionStartValue")
    window_count: int = setting("partitionStopValue")
    topic_translations: dict[str, str]
    absent: bool
    previous: Path | None
    absent_limit: int
    inventory: Path | None
    source_name: str
    signing_key: Path | None
    isolation_level: str
    connect_timeout_seconds: float = setting("connectTimeout")
    stall_timeout_seconds: float = setting("stallTimeout")
    target_ip: str | None = setting("targetIP")
    target_port: int | None
    datagrams_per_second: float = setting("eps")
    id: str
    progress_seconds: float = setting("progressInterval")
