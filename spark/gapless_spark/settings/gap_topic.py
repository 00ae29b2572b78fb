"""Owns the settings for how a scan reads and interprets a gaps topic; must not know the format of records."""

from __future__ import annotations

from gapless_api.base.settings import Setting, boolean, choice, integer
from gapless_api.offsets.ids import MAX_OFFSET

TOPIC = Setting(
    "topic", "The gaps topic, which the gap detector writes.", required=True, peer=True, group="What to read"
)
BEYOND_THE_RECORDS = (
    Setting(
        "infer",
        "Whether to add losses to the bundle that no record reports: windows missing between others, and the end of a "
        "window if the next one begins with a loss. Bundle and report mark them as inferred.",
        parse=boolean,
        default=False,
        group="Beyond the records",
    ),
    Setting(
        "inferTails",
        "Of which windows to infer the end: beside-losses: if the next window begins with a loss; all: of all that "
        "have a later window, which misses no loss between the first and the last window, but sends nearly everything "
        "again.",
        parse=choice("beside-losses", "all"),
        default="beside-losses",
        group="Beyond the records",
    ),
    Setting(
        "includeStale",
        "Whether to add records of windows that the detector no longer tracks to the bundle. It does not update these: "
        "the events that they list may have arrived since, or may still be missing; an audit finds out.",
        parse=boolean,
        shown_default="false; true with infer",
        group="Beyond the records",
    ),
    Setting(
        "skipStale",
        "Whether to leave these records out: the opposite of includeStale, which replaces it.",
        parse=boolean,
        group="Beyond the records",
    ),
    Setting(
        "detectorWindows",
        "How many windows of each partition the detector remembers (its MAX_WINDOWS); it no longer tracks older ones.",
        parse=integer(1, 1_000_000),
        default=5,
        metavar="NUMBER",
        group="Beyond the records",
    ),
)
SPARK_ABOVE = Setting(
    "sparkAbove",
    "With engine=auto, topics with more offsets than this are read by Spark, others by this process.",
    parse=integer(0, MAX_OFFSET),
    default=3_000_000,
    metavar="OFFSETS",
    group="Engine",
)
