"""Owns the settings of how fast it may go; must not know what they do."""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.settings import Setting
from gapless_sender.settings.values import bit_rate, rate

_GROUP = "Pace"

PACE: tuple[Setting, ...] = (
    Setting(
        "eps",
        "Most events per second; 0 or less for no limit; fractions are allowed.",
        parse=rate,
        default=0.0,
        shown_default="no limit",
        metavar="EVENTS",
        group=_GROUP,
    ),
    Setting(
        "bitsPerSecond",
        "Most bits per second on the link, with headers and copies; k, M and G may follow the number.",
        parse=bit_rate,
        default=0.0,
        shown_default="no limit",
        metavar="BITS",
        aliases=("bps",),
        own=True,
        group=_GROUP,
    ),
    Setting(
        "rateFile",
        "Properties file with eps, bitsPerSecond, budgetEps or budgetBitsPerSecond, which rule instead of the settings "
        "of these names. It is looked at every second and at SIGHUP, and the rates change while the resend runs; a "
        "file with a mistake changes nothing then.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "paceFile",
        "File that the shards of one resend share (see shardCount), so that eps and bitsPerSecond are kept by all of "
        "them together; without it each shard takes an equal part.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "budgetFile",
        "File that all senders of this machine share, so that together they keep budgetEps and "
        "budgetBitsPerSecond, whatever each one's own pace is; it is made if it is not there. Without these two, it is "
        "eps and bitsPerSecond that they keep together.",
        parse=Path,
        metavar="FILE",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "budgetEps",
        "Most events per second of all senders with the same budgetFile; 0 or less for no limit.",
        parse=rate,
        default=0.0,
        shown_default="no limit",
        metavar="EVENTS",
        own=True,
        group=_GROUP,
    ),
    Setting(
        "budgetBitsPerSecond",
        "Most bits per second of all senders with the same budgetFile, counted as for bitsPerSecond.",
        parse=bit_rate,
        default=0.0,
        shown_default="no limit",
        metavar="BITS",
        own=True,
        group=_GROUP,
    ),
)
