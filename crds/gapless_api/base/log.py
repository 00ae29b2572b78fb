"""Owns how log lines look and where they go; must not know what is logged.

A person at a terminal gets readable lines, everything else gets one JSON object a line. With a file, SIGHUP reopens it,
as log rotation expects. Import this module late: structlog is slow to load.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.hangup import at_hangup

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = {"TRACE": 0, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""The peer's names of levels, with the numbers of the standard library; a line at or above the level is written."""


def configure_logging(level: str = "INFO", file: Path | None = None, json: bool | None = None) -> None:  # noqa: FBT001
    """Set up structlog for this process.

    Args:
        level: a name of `LEVELS`, in any case.
        file: where the lines go; ``None`` for standard error.
        json: whether a line is a JSON object; ``None`` for yes unless standard error is a terminal and takes the lines.

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

    The handler only takes a note: it can run in the middle of a write. Lines are written completely and at the end of
    the file (O_APPEND), so that several processes can share it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = self._open()
        except OSError as error:
            raise ConfigurationError(
                f"The log file {path} cannot be opened ({error.strerror}); give a path that this user may write to."
            ) from None
        self._moved = False
        at_hangup(self._note)

    def write(self, text: str) -> None:
        """Write `text`; what the file does not take goes to standard error, for work must not end with the log."""
        line = text.encode("utf-8", "backslashreplace")
        try:
            if self._moved:
                self._moved = False
                fresh = self._open()
                os.close(self._handle)
                self._handle = fresh
            while line:
                line = line[os.write(self._handle, line) :]
        except OSError:
            sys.stderr.write(text)

    def flush(self) -> None:
        """Do nothing: every line is written through."""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _note(self) -> None:
        self._moved = True
