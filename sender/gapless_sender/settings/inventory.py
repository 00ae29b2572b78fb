"""The settings of ``gapless inventory``; must not know what they do.

Settings that a resend has too have the same names, so that one properties file serves both; so does the live sender's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gapless_api.base.log_settings import LOG_SETTINGS
from gapless_api.base.peer_settings import foreign_settings
from gapless_api.base.quantities import boolean, integer
from gapless_api.base.settings import Setting, SettingsTable
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of
from gapless_kafka.access.settings import KAFKA_SETTINGS
from gapless_sender.settings.kafka import KAFKA
from gapless_sender.settings.link import LINK
from gapless_sender.settings.output import OUTPUT
from gapless_sender.settings.pace import PACE
from gapless_sender.settings.selection import SELECTION
from gapless_sender.settings.values import rate, topics

_WHAT = "What to include"
_OUTPUT = "Output"
_SENDING = "Over the link"

_named = {setting.name: setting for setting in (*SELECTION, *LINK, *PACE, *OUTPUT, *KAFKA)}


def _as_resend(name: str, **changes: object) -> Setting:
    return replace(_named[name], **changes)  # type: ignore[arg-type]


_TARGET_IP = _as_resend(
    "targetIP",
    required=False,
    help="Address or name of the receiver. The inventory is sent to it as unencrypted status texts, which the "
    "receiver writes to its internalTopic.",
    group=_SENDING,
)
_TARGET_PORT = _as_resend("targetPort", required=False, group=_SENDING)
_EPS = Setting(
    "eps",
    "Maximum datagrams per second; 0 or less for no limit, which unlimited must confirm.",
    parse=rate,
    default=200.0,
    metavar="DATAGRAMS",
    group=_SENDING,
    peer=True,
)
_ID = _as_resend("id", default="Inventory", shown_default="Inventory")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySettings(TypedSettings):
    """The settings of one run, except the connection to Kafka."""

    topics: tuple[str, ...] | None = declare(
        "topics",
        "Topics, separated by commas, under their upstream or their downstream names.",
        parse=topics,
        aliases=("topic",),
        shown_default="those of topicTranslations",
        metavar="TOPIC,…",
        group=_WHAT,
    )
    window_start: int = include(_as_resend("partitionStartValue", group=_WHAT))
    window_count: int = include(_as_resend("partitionStopValue", group=_WHAT))
    topic_translations: dict[str, str] = include(_as_resend("topicTranslations", group=_WHAT))
    absent: bool = declare(
        "absent",
        "Find the offsets without events (transaction markers, compacted or aborted records), which requires reading "
        "everything. Without it these offsets are expected, and an audit reports them as missing.",
        parse=boolean,
        default=False,
        group=_WHAT,
    )
    previous: Path | None = declare(
        "previous",
        "An older inventory made with absent; the offsets that it covers are not read again.",
        parse=Path,
        replaced_by="inventory",
        group=_WHAT,
    )
    absent_limit: int = declare(
        "absentLimit",
        "Maximum number of ranges of absent offsets, at some 16 bytes of memory each; with more the command fails.",
        parse=integer(1),
        default=4_000_000,
        metavar="RANGES",
        group=_WHAT,
    )
    inventory: Path | None = declare(
        "inventory",
        "File for the inventory, written completely or not at all.",
        parse=Path,
        writes=True,
        aliases=("manifest",),
        shown_default="standard output, unless it is sent",
        group=_OUTPUT,
    )
    source_name: str = declare(
        "sourceName", "Name of the source, recorded in the inventory.", default="", group=_OUTPUT
    )
    signing_key: Path | None = declare(
        "signingKey",
        "Ed25519 private key (PEM) to sign the inventory with.",
        parse=Path,
        group=_OUTPUT,
    )
    isolation_level: str = value_of(_named["isolationLevel"])
    connect_timeout_seconds: float = value_of(_named["connectTimeout"])
    stall_timeout_seconds: float = value_of(_named["stallTimeout"])
    target_ip: str | None = value_of(_TARGET_IP)
    target_port: int | None = value_of(_TARGET_PORT)
    datagrams_per_second: float = value_of(_EPS)
    id: str = value_of(_ID)
    progress_seconds: float = value_of(_named["progressInterval"])


_settings = (
    *InventorySettings.declared(),
    *KAFKA_SETTINGS,
    *(_as_resend(name) for name in ("isolationLevel", "connectTimeout", "stallTimeout")),
    _TARGET_IP,
    _TARGET_PORT,
    *(
        _as_resend(name, group=_SENDING)
        for name in ("nic", "sourceAddress", "dscp", "ttl", "payloadSize", "strictLink")
    ),
    _as_resend(
        "copies",
        default=3,
        shown_default="3",
        help="Copies of the inventory, sent one after the other, because a lost datagram makes one useless.",
        group=_SENDING,
    ),
    _EPS,
    _as_resend(
        "linkProfile",
        help="Link profile that gapless link receive --profile wrote: its rate and payload size apply where eps and "
        "payloadSize are not set.",
        group=_SENDING,
    ),
    _as_resend(
        "unlimited",
        help="Send without a rate limit, which may lose the inventory and disturb the live stream.",
        group=_SENDING,
    ),
    _ID,
    _as_resend("progressInterval", help="Seconds between progress lines (JSON on standard error); 0 for none."),
    *LOG_SETTINGS,
)

INVENTORY = SettingsTable(
    prefix="GAPLESS_INVENTORY_",
    other_prefixes=("GAPLESS_MANIFEST_",),
    settings=_settings,
    foreign=foreign_settings(_settings),
    common=(
        "topics",
        "bootstrapServers",
        "caFile",
        "absent",
        "previous",
        "inventory",
        "targetIP",
        "targetPort",
        "nic",
        "linkProfile",
    ),
)
"""All settings of ``gapless inventory``."""
