"""Owns the settings of ``gapless scan``, ``create`` and ``audit``; must not know Spark, or how Kafka is read.

`create` accepts what the peer's program of that name accepts; `scan` the same and more, under the same environment
variables, so that one properties file serves both.
"""

from __future__ import annotations

import re
from pathlib import Path

from gapless_api.kafka_settings import CONNECT_TIMEOUT, KAFKA_SETTINGS
from gapless_api.log_settings import LOG_SETTINGS
from gapless_api.object_store import S3_SETTINGS, ObjectAddress
from gapless_api.peer_settings import foreign_settings
from gapless_api.settings import Setting, SettingsTable, boolean, choice, integer


def file_or_object(text: str) -> Path | ObjectAddress:
    """Read where a bundle goes: a file, or s3://bucket/key."""
    return ObjectAddress.parse(text) if text.startswith("s3://") else Path(text)


def _state_place(text: str) -> Path | ObjectAddress:
    """Read where a state is kept: a folder, or s3://bucket/prefix, for which other programs also write s3a://."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"s3", "s3a"}:
        return ObjectAddress.parse(f"s3://{rest.rstrip('/')}")
    return Path(text)


_LIMIT = Setting(
    "limit",
    "all: every missing range; first: only the first one of each partition, from which resend sends everything.",
    parse=choice("all", "first"),
    default="all",
    shown_default="all",
    metavar="all|first",
    group="Output",
)
_BUNDLE = Setting(
    "resendFileName",
    "File for the bundle, or s3://BUCKET/KEY for an S3-compatible store; it appears whole or not at all.",
    parse=file_or_object,
    shown_default="standard output",
    metavar="FILE|URL",
    group="Output",
)
_TOPIC = Setting("topic", "The gaps topic, which the gap detector writes.", required=True, group="What to read")


def _memory(text: str) -> str:
    """Read an amount of memory as Java writes it."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in {"m", "g"} or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise ValueError("a number with m or g behind it, such as 2g")
    return number + unit


def _master(text: str) -> str:
    """Read where Spark shall run."""
    if re.fullmatch(r"local(\[(\*|[1-9][0-9]*)\])?|yarn|(spark|k8s)://\S+", text) is None:
        raise ValueError("local, local[N], local[*], spark://…, k8s://… or yarn")
    return text


def _words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise ValueError("one or several words, separated by commas")
    return found


def _files(text: str) -> tuple[Path, ...]:
    """Split a list of files at its commas."""
    return tuple(Path(word) for word in _words(text))


_OWN_OUTPUT = (
    Setting("report", "File for a report in JSON.", parse=Path, metavar="FILE", own=True, group="Output"),
    Setting(
        "html",
        "File for a page to read in a browser: what is missing and where, and what to do next. It loads nothing.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="Output",
    ),
    Setting(
        "history",
        "File, in JSON, that remembers how the last 100 runs ended; page and report show it.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="Output",
    ),
    Setting(
        "compareWith",
        "An older bundle, as FILE or s3://BUCKET/KEY: the report then says which of its gaps have closed. When it "
        "cannot be read, the report says that, and nothing else is spoiled.",
        parse=file_or_object,
        metavar="FILE|URL",
        own=True,
        group="Output",
    ),
    Setting("sourceName", "What the bundle shall say about where it comes from.", own=True, default="", group="Output"),
    Setting(
        "signingKey",
        "Ed25519 private key (PEM) to sign the bundle with.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="Output",
    ),
    Setting(
        "resultLines",
        "Whether to write report and bundle to standard output as lines of JSON that a log can carry, for a program "
        "that reads the log; the bundle does not go there in any other form then.",
        parse=boolean,
        default=False,
        shown_default="false",
        aliases=("resultLine",),
        switch=True,
        metavar="true|false",
        own=True,
        group="Output",
    ),
    Setting(
        "resultBundleLimit",
        "Most bytes that the bundle may have after compression to be in these lines; a larger one is left out of them.",
        parse=integer(0),
        default=900_000,
        shown_default="900000",
        metavar="BYTES",
        own=True,
        group="Output",
    ),
    *S3_SETTINGS,
)
_ENGINE = (
    Setting(
        "master",
        "Where Spark shall run; spark-submit's own choice goes first.",
        parse=_master,
        default="local[*]",
        shown_default="local[*]",
        own=True,
        group="Engine",
    ),
    Setting(
        "driverMemory",
        "Memory of Spark's driver, which is all there is in local mode.",
        parse=_memory,
        default="1g",
        shown_default="1g",
        metavar="SIZE",
        own=True,
        group="Engine",
    ),
    Setting(
        "parallelism",
        "How many tasks read at least, for topics with few partitions.",
        parse=integer(1, 10_000),
        shown_default="one for each core",
        metavar="NUMBER",
        own=True,
        group="Engine",
    ),
)
_BEYOND_THE_RECORDS = (
    Setting(
        "infer",
        "Whether the bundle shall also hold what may be lost without a record: windows missing between others, and the "
        "end of a window where the next one begins with a loss. It is marked as inferred in bundle and report.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group="Beyond the records",
    ),
    Setting(
        "inferTails",
        "Of which windows to infer the end: beside-losses, as infer says; or all that have a later window, which "
        "misses nothing between the first and the last window and sends nearly everything again.",
        parse=choice("beside-losses", "all"),
        default="beside-losses",
        shown_default="beside-losses",
        metavar="beside-losses|all",
        own=True,
        group="Beyond the records",
    ),
    Setting(
        "skipStale",
        "Whether to leave out records of windows that the detector has forgotten. Nothing updates these any more: what "
        "they list may have arrived since, or may still be missing, and an audit tells.",
        parse=boolean,
        default=False,
        shown_default="false",
        switch=True,
        metavar="true|false",
        own=True,
        group="Beyond the records",
    ),
    Setting(
        "detectorWindows",
        "How many windows of each partition the detector remembers, its MAX_WINDOWS; older ones are stale.",
        parse=integer(1, 1_000_000),
        default=5,
        shown_default="5",
        metavar="NUMBER",
        own=True,
        group="Beyond the records",
    ),
)

_scan = (
    _TOPIC,
    *_BEYOND_THE_RECORDS,
    _LIMIT,
    _BUNDLE,
    *_OWN_OUTPUT,
    *KAFKA_SETTINGS,
    CONNECT_TIMEOUT,
    *LOG_SETTINGS,
    *_ENGINE,
)
_create = tuple(setting for setting in _scan if not setting.own)
_audit = (
    Setting(
        "topics",
        "Topics with received events, separated by commas; their keys are topic_partition_offset.",
        parse=_words,
        aliases=("topic",),
        required=True,
        metavar="TOPIC,…",
        own=True,
        group="What to read",
    ),
    Setting(
        "expect",
        "What should be there, as topic:partition:first-last; repeat it, or separate several by commas. A partition "
        "that nothing is said about is expected from the lowest to the highest offset seen.",
        parse=_words,
        default=(),
        metavar="TOPIC:PARTITION:FIRST-LAST",
        repeatable=True,
        own=True,
        group="What to read",
    ),
    Setting(
        "expectFile",
        "File with such lines; blank ones and ones that begin with # do not count.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="What to read",
    ),
    Setting(
        "expectManifest",
        "What should be there, as gapless manifest wrote it on the sending side; repeat it, or separate several by "
        "commas. Of each partition the newest one counts.",
        parse=_files,
        default=(),
        metavar="FILE,…",
        repeatable=True,
        own=True,
        group="What to read",
    ),
    Setting(
        "expectManifestTopic",
        "Topic in which the receiver leaves status texts (its internalTopic), with manifests that gapless manifest "
        "sent over the link.",
        metavar="TOPIC",
        own=True,
        group="What to read",
    ),
    Setting(
        "expectTopics",
        "Topics of the manifests that count, as ids name them, separated by commas; the others are not expected here.",
        parse=_words,
        default=(),
        shown_default="all",
        metavar="TOPIC,…",
        own=True,
        group="What to read",
    ),
    Setting(
        "verifyKey",
        "Ed25519 public key (PEM); a manifest without a valid signature of it is refused.",
        parse=Path,
        metavar="FILE",
        own=True,
        group="What to read",
    ),
    Setting(
        "state",
        "Folder, or s3://BUCKET/PREFIX (also s3a://), to keep what was received; a later audit with the same one reads "
        "only records that are new. An empty place begins anew.",
        parse=_state_place,
        metavar="DIR|URL",
        own=True,
        group="What to read",
    ),
    _LIMIT,
    _BUNDLE,
    *_OWN_OUTPUT,
    *KAFKA_SETTINGS,
    CONNECT_TIMEOUT,
    *LOG_SETTINGS,
    *_ENGINE,
)

SCAN = SettingsTable("AIRGAP_CREATE_", _scan, foreign_settings(_scan))
"""``gapless scan``: the peer's settings and our own."""
CREATE = SettingsTable("AIRGAP_CREATE_", _create, foreign_settings(_create))
"""``gapless create``: the peer's settings, no more."""
AUDIT = SettingsTable("GAPLESS_AUDIT_", _audit, foreign_settings(_audit))
"""``gapless audit``, which the peer does not have."""
