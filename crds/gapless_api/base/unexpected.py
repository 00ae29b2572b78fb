"""How an exception that no rule expects is described: by its type and where it was raised.

Its text is neither shown nor logged, because it may have the content of a record.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Any


def describe(error: BaseException) -> str:
    """Return the type of an exception and where it was raised, such as ``ValueError in writer.py, line 7``."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def unexpected_sentence(what: str, error: BaseException) -> str:
    """Return the sentences for a user about what an exception has prevented, such as ``The copy has ended``."""
    return (
        f"{what}: an unexpected error in Gapless ({describe(error)}). Report a bug with the output, which has no "
        f"content of records."
    )


def log_unexpected(log: Any, event: str, message: str, error: BaseException, **fields: Any) -> None:
    """Log `event` with the place of an exception, and without a traceback, which has its text.

    Args:
        log: a logger of structlog.
        event: its name.
        message: for people.
        error: that was raised.
        **fields: more about the event.
    """
    log.error(event, message=message, calls=calls_of(error), **fields)


def calls_of(error: BaseException) -> list[str]:
    """Return the calls that led to an exception, the innermost last, for the log."""
    return [
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
