"""The settings of what to resend; must not know what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.quantities import boolean, choice, integer, timestamp_or_age_ms
from gapless_api.base.typed_settings import TypedSettings, declare
from gapless_api.keys.trusted_keys import parse_keys
from gapless_api.offsets.ids import MAX_PARTITION
from gapless_sender.settings.values import manual_offset, partition, reasons, sha256, translations

_GROUP = "What to resend"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings(TypedSettings):
    """What to resend."""

    bundle: Path | None = declare(
        "resendFileName",
        "Bundle to resend, written by 'gapless scan', 'gapless audit' or the peer's create.",
        parse=Path,
        environment="RESULT_FILE_NAME",
        aliases=("resultFileName", "bundle"),
        group=_GROUP,
        peer=True,
    )
    topic: str | None = declare(
        "topic",
        "Topic for a resend by offsets or by time, under its downstream or its upstream name.",
        aliases=("topics",),
        group=_GROUP,
        peer=True,
    )
    partition: int | None = declare(
        "partition",
        "Downstream number of the partition; without it a time range covers all partitions.",
        parse=partition,
        metavar="N",
        group=_GROUP,
        peer=True,
    )
    first_offset: int | None = declare(
        "offsetFrom",
        "First offset to resend, inclusive. Behind the end of the partition it is NotYetWritten (exit code 4).",
        parse=manual_offset,
        metavar="OFFSET",
        group=_GROUP,
        peer=True,
    )
    last_offset: int | None = declare(
        "offsetTo",
        "Last offset to resend, inclusive; -1 or empty for the end of the partition.",
        parse=manual_offset,
        metavar="OFFSET",
        group=_GROUP,
        peer=True,
    )
    """Inclusive."""
    first_timestamp_ms: int | None = declare(
        "from",
        "Oldest Kafka timestamp to resend, inclusive; with a bundle or offsets it narrows them. A time such as "
        "2026-11-20T10:00:00Z, a date (its first moment in UTC), or a duration before now, such as 2h, which is "
        "another time at each run: not with a checkpoint that is to be resumed. 1970-01-01 is no bound.",
        parse=timestamp_or_age_ms,
        metavar="TIME",
        group=_GROUP,
        peer=True,
    )
    last_timestamp_ms: int | None = declare(
        "to",
        "Newest Kafka timestamp to resend, inclusive, written like from; empty for no end.",
        parse=timestamp_or_age_ms,
        metavar="TIME",
        group=_GROUP,
        peer=True,
    )
    """Inclusive."""
    window_start: int = declare(
        "partitionStartValue",
        "Number that the live sender adds to this cluster's partition numbers.",
        parse=integer(0, MAX_PARTITION),
        default=0,
        metavar="N",
        group=_GROUP,
        peer=True,
    )
    window_count: int = declare(
        "partitionStopValue",
        "Number of partitions, from partitionStartValue on, that belong to this cluster; 0 for all. Other entries of a "
        "bundle are skipped and reported.",
        parse=integer(0, MAX_PARTITION),
        default=0,
        metavar="COUNT",
        group=_GROUP,
        peer=True,
    )
    topic_translations: dict[str, str] = declare(
        "topicTranslations",
        "The live sender's JSON object of upstream topic to downstream topic; Kafka is read under the upstream name.",
        parse=translations,
        default={},
        metavar="JSON",
        group=_GROUP,
    )
    """Upstream topic to downstream topic."""
    unavailable: str = declare(
        "unavailable",
        "What to do with offsets that Kafka no longer has: report them, or fill them with empty events, which the "
        "receiving side's detector counts as received.",
        parse=choice("report", "fill"),
        default="report",
        group=_GROUP,
    )
    fill: tuple[str, ...] | None = declare(
        "fill",
        "Reasons for which unavailable=fill fills offsets: NonExistent (compacted, transaction marker), Expired "
        "(deleted by retention), TooLarge.",
        parse=reasons,
        shown_default="NonExistent",
        metavar="REASON,…",
        group=_GROUP,
    )
    """``None`` when not set."""
    plan: bool = declare(
        "plan",
        "Show what would be sent (events, bytes, time, unavailable offsets), and send nothing.",
        parse=boolean,
        default=False,
        aliases=("dryRun",),
        group=_GROUP,
    )
    limit: str = declare(
        "limit",
        "Accepted for the peer's files, without effect: the type of the bundle decides.",
        parse=choice("all", "first"),
        default="all",
        group=_GROUP,
        peer=True,
    )
    verify_key: Path | None = declare(
        "verifyKey",
        "Ed25519 public key (PEM); a bundle that this key has not signed is refused.",
        parse=Path,
        group=_GROUP,
    )
    trusted_keys: dict[str, str] | None = declare(
        "trustedKeys",
        "Ed25519 public keys as NAME:KEY, where KEY is the middle line of the PEM file; a bundle that none of these "
        "keys has signed is refused. On the command line it overrides every file and variable.",
        parse=parse_keys,
        metavar="NAME:KEY,…",
        group=_GROUP,
    )
    bundle_sha256: str | None = declare(
        "bundleSha256",
        "Digest that the bundle must have, as shown by 'gapless bundle show'; another bundle is refused.",
        parse=sha256,
        metavar="DIGEST",
        group=_GROUP,
    )


SELECTION = SelectionSettings.declared()
