"""The settings of how event bodies are filtered, compressed and encrypted; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.quantities import boolean, choice, integer
from gapless_api.base.typed_settings import TypedSettings, declare
from gapless_sender.settings.values import seconds

_GROUP = "Bodies: filter, compression, encryption"


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySettings(TypedSettings):
    """How event bodies are filtered, compressed and encrypted."""

    input_filter_rules: str | None = declare(
        "inputFilterRules",
        "File of rules, or rules separated by commas: allow:REGEX or deny:REGEX (RE2, searched in the value). The "
        "first rule that matches decides; a denied event is sent empty.",
        metavar="RULES|FILE",
        group=_GROUP,
        peer=True,
    )
    input_filter_default_action: str = declare(
        "inputFilterDefaultAction",
        "Action for events that no rule matches.",
        parse=choice("allow", "deny"),
        default="allow",
        group=_GROUP,
        peer=True,
    )
    input_filter_timeout: int = declare(
        "inputFilterTimeout",
        "Accepted for the peer's files, without effect: RE2 matches in linear time.",
        parse=integer(1),
        default=100,
        metavar="MS",
        group=_GROUP,
        peer=True,
    )
    compress_above_bytes: int = declare(
        "compressWhenLengthExceeds",
        "Compress values longer than this many bytes with gzip; 0 for never.",
        parse=integer(0),
        default=0,
        metavar="BYTES",
        group=_GROUP,
        peer=True,
    )
    """0 for never."""
    encryption: bool = declare(
        "encryption",
        "Encrypt events (AES-256-GCM). The receiver has one key for all its senders, so it can no longer decrypt a "
        "live encrypted stream to the same port.",
        parse=boolean,
        default=False,
        group=_GROUP,
        peer=True,
    )
    public_key_file: Path | None = declare(
        "publicKeyFile",
        "Certificate (PEM, X.509, RSA) of the receiver, which encrypts the event key.",
        parse=Path,
        group=_GROUP,
        peer=True,
    )
    rotate_key_every_seconds: int = declare(
        "generateNewSymmetricKeyEvery",
        "Seconds after which a new event key is announced; all processes, and all shards with the same "
        "keyRotationFile, switch to it. 0 for the same key throughout.",
        parse=integer(0),
        default=0,
        metavar="SECONDS",
        group=_GROUP,
        peer=True,
    )
    """0 for the same key throughout."""
    session_key_file: Path | None = declare(
        "sessionKeyFile",
        "File with the event key that all shards of a resend share (32 bytes, raw or base64), because the receiver has "
        "one key for all its senders. Without it each sender generates its own.",
        parse=Path,
        group=_GROUP,
    )
    key_rotation_file: Path | None = declare(
        "keyRotationFile",
        "File that the shards of one resend share on one machine: with generateNewSymmetricKeyEvery, one of them "
        "announces each new key and all switch to it. It is created if it is missing, and contains no key: keys are "
        "derived from sessionKeyFile.",
        parse=Path,
        writes=True,
        group=_GROUP,
    )
    key_repeats: int = declare(
        "keyRepeats",
        "Copies of each key announcement, so that one lost datagram loses no events.",
        parse=integer(1, 100),
        default=3,
        metavar="N",
        group=_GROUP,
    )
    key_settle_seconds: float = declare(
        "keySettle",
        "Seconds between the last announcement of a key and the first event; announcements are 1.2 s apart.",
        parse=seconds,
        default=0.5,
        metavar="SECONDS",
        group=_GROUP,
    )


BODIES = BodySettings.declared()
