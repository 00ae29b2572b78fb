"""Owns the settings by which a command writes its log; must not know how lines look: see `log`.

It stands apart from `log`, which loads structlog, because ``--help`` needs these names and nothing slow.
"""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.settings import Setting, choice

LOG_GROUP = "Log"

LOG_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "logLevel",
        "Minimum log level.",
        parse=choice("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
        default="INFO",
        shown_default="INFO",
        metavar="TRACE|DEBUG|INFO|WARN|ERROR|FATAL",
        group=LOG_GROUP,
    ),
    Setting(
        "logFileName",
        "File for log lines instead of standard error. SIGHUP reopens it.",
        parse=Path,
        metavar="FILE",
        group=LOG_GROUP,
    ),
)
"""The peer's settings with the peer's names."""
