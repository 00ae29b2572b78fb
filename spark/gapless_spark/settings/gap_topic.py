"""Owns the settings for how a scan reads a gaps topic and what it makes of it; must not know what records look like."""

from __future__ import annotations

from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_api.offsets.ids import MAX_OFFSET

TOPIC = Setting("topic", "The gaps topic, which the gap detector writes.", required=True, group="What to read")
BEYOND_THE_RECORDS = (
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
SPARK_ABOVE = Setting(
    "sparkAbove",
    "With engine=auto, topics with more offsets than this are read by Spark, others by this process.",
    parse=integer(0, MAX_OFFSET),
    default=3_000_000,
    shown_default="3000000",
    metavar="OFFSETS",
    own=True,
    group="Engine",
)
