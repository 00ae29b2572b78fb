"""Owns the settings of what is done to an event on its way; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_api.base.typed_settings import TypedSettings, setting
from gapless_sender.settings.values import seconds

_GROUP = "Bodies: filter, compression, encryption"

BODIES: tuple[Setting, ...] = (
    Setting(
        "inputFilterRules",
        "File of rules, or rules separated by commas, as allow:REGEX or deny:REGEX (RE2, searched in the value); "
        "the first that matches decides, and a denied event is sent empty.",
        metavar="RULES|FILE",
        group=_GROUP,
    ),
    Setting(
        "inputFilterDefaultAction",
        "What happens to events that no rule matches.",
        parse=choice("allow", "deny"),
        default="allow",
        shown_default="allow",
        metavar="allow|deny",
        group=_GROUP,
    ),
    Setting(
        "inputFilterTimeout",
        "Accepted for the peer's files and without effect: RE2 patterns take time in proportion to the value.",
        parse=integer(1),
        default=100,
        metavar="MS",
        group=_GROUP,
    ),
    Setting(
        "compressWhenLengthExceeds",
        "Values longer than this many bytes are sent as gzip; 0 for never.",
        parse=integer(0),
        default=0,
        shown_default="0",
        metavar="BYTES",
        group=_GROUP,
    ),
    Setting(
        "encryption",
        "Whether to encrypt events (AES-256-GCM); the receiver has one key for all its senders, so a live "
        "encrypted stream to the same receiver port stops being readable.",
        parse=boolean,
        default=False,
        shown_default="false",
        metavar="true|false",
        switch=True,
        group=_GROUP,
    ),
    Setting(
        "publicKeyFile",
        "Certificate (PEM, X.509, RSA) of the receiver, for which the event key is encrypted.",
        parse=Path,
        metavar="FILE",
        group=_GROUP,
    ),
    Setting(
        "generateNewSymmetricKeyEvery",
        "Seconds after which a new event key is announced; all processes, and all shards with one keyRotationFile, "
        "follow it. 0 for one key all along.",
        parse=integer(0),
        default=0,
        shown_default="0",
        metavar="SECONDS",
        group=_GROUP,
    ),
    Setting(
        "sessionKeyFile",
        "File with the event key, 32 bytes as they are or as base64, which all shards of a resend share, for the "
        "receiver has one key for all its senders; without it every sender makes its own.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "keyRotationFile",
        "File that the shards of one resend share on one machine, so that with generateNewSymmetricKeyEvery one of "
        "them announces each new key and all follow. It is created if it is missing and holds no key: keys are derived "
        "from sessionKeyFile.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "keyRepeats",
        "How often each key announcement is sent, so that one lost datagram loses no events.",
        parse=integer(1, 100),
        default=3,
        shown_default="3",
        metavar="N",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "keySettle",
        "Seconds from the last announcement of a key, which are 1.2 s apart, to the first event.",
        parse=seconds,
        default=0.5,
        shown_default="0.5",
        metavar="SECONDS",
        own=True,
        group=_GROUP,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySettings(TypedSettings):
    """What is done to an event on its way."""

    input_filter_rules: str | None
    input_filter_default_action: str
    compress_above_bytes: int = setting("compressWhenLengthExceeds")
    """0 for never."""
    encryption: bool
    public_key_file: Path | None
    rotate_key_every_seconds: int = setting("generateNewSymmetricKeyEvery")
    """0 for one key all along."""
    session_key_file: Path | None
    key_rotation_file: Path | None
    key_repeats: int
    key_settle_seconds: float = setting("keySettle")
