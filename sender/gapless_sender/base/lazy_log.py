"""The log lines of a resend: structlog is loaded and set up by the first line, because most runs write none.

Must not know what is logged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_level = "INFO"
_file: Path | None = None
_ready = False


def configure_log(level: str, file: Path | None) -> None:
    """Set the level and the file of log lines.

    Raises:
        ConfigurationError: the file cannot be opened.
    """
    global _level, _file, _ready
    _level, _file, _ready = level, file, False
    if file is not None:
        _set_up()


def start_log(found: Resolved) -> None:
    """Configure the log, and log the settings that have no effect. Raises ConfigurationError."""
    configure_log(found.values["logLevel"], found.values["logFileName"])
    if found.ignored:
        log("info", "settings of other programs in the file have no effect here", **found.ignored)
    if found.unknown_variables:
        log("warning", "unknown environment variables have no effect", variables=", ".join(found.unknown_variables))


def log(level: str, event: str, **fields: Any) -> None:
    """Write one line at `level` (a method of structlog's loggers: debug, info, warning, error)."""
    if not _ready:
        _set_up()
    import structlog  # noqa: PLC0415 -- takes a third of the start-up time of a small resend

    getattr(structlog.get_logger(), level)(event, **fields)


def _set_up() -> None:
    global _ready  # noqa: PLW0603 -- see configure_log
    from gapless_api.base.log import configure_logging  # noqa: PLC0415 -- it loads structlog

    configure_logging(_level, _file)
    _ready = True
