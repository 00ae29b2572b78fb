"""Owns what time it is: the API server's time, because every deadline is counted from times that it has written.

Must not know who asks. A clock of this machine that is minutes ahead would give Jobs up before they had their pods.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = structlog.get_logger("gapless.clock")
TOLERANCE = timedelta(seconds=5)
"""Up to this difference the own clock is right; the ``Date`` of an answer has whole seconds and was on its way."""


class ServerClock:
    """The time of the API server, by the ``Date`` of its last answer."""

    def __init__(self, own: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Begin with the own clock, until the first answer."""
        self._own = own
        self._behind = timedelta(0)

    def now(self) -> datetime:
        """The time."""
        return self._own() + self._behind

    def heard(self, date: str | None) -> None:
        """Take in the ``Date`` header of an answer that has just come."""
        try:
            server_time = parsedate_to_datetime(date or "")
        except ValueError:
            return
        behind = server_time.astimezone(UTC) - self._own()
        if abs(behind) <= TOLERANCE:
            behind = timedelta(0)
        if abs(behind - self._behind) <= TOLERANCE and bool(behind) == bool(self._behind):
            return
        seconds = round(-behind.total_seconds())
        _LOG.warning("clock compared with the API server's", seconds_ahead=seconds, in_use="the API server's")
        self._behind = behind
