"""Owns the log settings of a command; must not know the format of log lines (see `log`).

Separate from `log`, which loads structlog, because ``--help`` needs these settings and must be fast.
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
        "Log file instead of standard error. SIGHUP reopens it.",
        parse=Path,
        metavar="FILE",
        group=LOG_GROUP,
    ),
)
"""The same names as in the peer."""
