"""The format and the destination of log lines; must not know what is logged.

A terminal gets readable lines, everything else one JSON object per line. SIGHUP reopens a log file, as log rotation
expects. Import this module late: structlog is slow to load.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TextIO

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.hangup import on_hangup

LEVELS = {"TRACE": 0, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""The level names of the peer, with the numbers of the standard library; lines at or above the level are written."""


def configure_logging(level: str = "INFO", file: Path | None = None, json: bool | None = None) -> None:  # noqa: FBT001
    """Set up structlog for this process.

    Args:
        level: a name of `LEVELS`, in any case.
        file: the log file; ``None`` for standard error.
        json: whether to write JSON; ``None`` for JSON unless the lines go to a terminal.

    Raises:
        ConfigurationError: the level is unknown, or the file cannot be opened.
    """
    threshold = LEVELS.get(level.upper())
    if threshold is None:
        raise ConfigurationError(f"The log level {level!r} is unknown; give one of {', '.join(LEVELS)}.")
    stream: TextIO | _ReopenedFile = sys.stderr if file is None else _ReopenedFile(file)
    if json is None:
        json = file is not None or not sys.stderr.isatty()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        rendering: list[Any] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    else:
        colours = file is None and sys.stderr.isatty()
        plain = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=stream),  # type: ignore[arg-type]  # it writes and flushes
        cache_logger_on_first_use=False,
    )


class _ReopenedFile:
    """A log file that is reopened at the first line after a SIGHUP.

    The signal handler only sets a flag, because it can run in the middle of a write. Lines are appended completely
    (O_APPEND), so that several processes can share the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = self._open()
        except OSError as error:
            raise ConfigurationError(
                f"The log file {path} cannot be opened ({error.strerror}); give a path that this user may write to."
            ) from None
        self._must_reopen = False
        on_hangup(self._request_reopen)

    def write(self, text: str) -> None:
        """Write `text` to the file, or to standard error if that fails: a log error must not end the work."""
        line = text.encode("utf-8", "backslashreplace")
        try:
            if self._must_reopen:
                self._reopen()
            while line:
                line = line[os.write(self._handle, line) :]
        except OSError:
            sys.stderr.write(text)

    def flush(self) -> None:
        """Do nothing: lines are not buffered."""

    def _reopen(self) -> None:
        self._must_reopen = False
        try:
            reopened = self._open()
        except OSError:
            self._must_reopen = True
            raise
        os.close(self._handle)
        self._handle = reopened

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _request_reopen(self) -> None:
        self._must_reopen = True
