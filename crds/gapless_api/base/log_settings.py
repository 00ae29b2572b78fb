"""The log settings of a command; must not know the format of log lines (see `log`).

Separate from `log`, which loads structlog, because ``--help`` needs these settings and must be fast.
"""

from __future__ import annotations

from pathlib import Path

from gapless_api.base.quantities import choice
from gapless_api.base.settings import Setting

LOG_GROUP = "Log"

LOG_LEVEL = Setting(
    "logLevel",
    "Minimum log level.",
    parse=choice("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
    default="INFO",
    group=LOG_GROUP,
    peer=True,
)
LOG_FILE = Setting(
    "logFileName",
    "Log file instead of standard error. SIGHUP reopens it.",
    parse=Path,
    writes=True,
    group=LOG_GROUP,
    peer=True,
)
LOG_SETTINGS = (LOG_LEVEL, LOG_FILE)
"""The same names as in the peer."""
