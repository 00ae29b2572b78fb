"""Owns the settings for what a job writes: bundle, report, page; must not know how these are written."""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.missing_code import EXIT_CODE
from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_archive.store.access import S3_SETTINGS
from gapless_spark.settings.values import file_or_object

LIMIT = Setting(
    "limit",
    "all: every missing range; first: only the first range of each partition, from which resend sends all offsets.",
    parse=choice("all", "first"),
    default="all",
    group="Output",
    peer=True,
)
BUNDLE = Setting(
    "resendFileName",
    "File for the bundle, or s3://BUCKET/KEY in an S3-compatible store; it is written completely or not at all.",
    parse=file_or_object,
    shown_default="standard output",
    metavar="FILE|URL",
    group="Output",
    peer=True,
)
OWN_OUTPUT = (
    Setting("report", "File for a report in JSON.", parse=Path, group="Output"),
    Setting(
        "html",
        "File for an HTML page: which events are missing, where, and what to do next. It loads nothing.",
        parse=Path,
        group="Output",
    ),
    Setting(
        "compareWith",
        "An older bundle, as FILE or s3://BUCKET/KEY: the report then lists which of its gaps have closed. If it "
        "cannot be read, the report contains the reason, and the job continues.",
        parse=file_or_object,
        metavar="FILE|URL",
        group="Output",
    ),
    Setting("sourceName", "Name of the source in the bundle.", default="", group="Output"),
    Setting(
        "signingKey",
        "Ed25519 private key (PEM) to sign the bundle with.",
        parse=Path,
        group="Output",
    ),
    Setting(
        "resultLines",
        "Whether to write report and bundle to standard output as JSON lines, for a program that reads the log; the "
        "bundle is then not written there in any other form.",
        parse=boolean,
        default=False,
        aliases=("resultLine",),
        group="Output",
    ),
    Setting(
        "resultBundleLimit",
        "Maximum size of the compressed bundle in these lines; a larger bundle is left out.",
        parse=integer(0),
        default=900_000,
        metavar="BYTES",
        group="Output",
    ),
    EXIT_CODE,
    *S3_SETTINGS,
)
