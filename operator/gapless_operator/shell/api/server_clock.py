"""The current time: that of the API server, because every deadline counts from timestamps that it has written.

Must not know who uses it. With a local clock that is minutes ahead, Jobs would be given up before they had their pods.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import structlog

_LOG = structlog.get_logger("gapless.clock")
TOLERANCE = timedelta(seconds=5)
"""Smaller differences are ignored: a ``Date`` has whole seconds, and the response has a latency."""


class ServerClock:
    """The time of the API server, by the ``Date`` of its last response."""

    def __init__(self, local: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Use the local clock until the first response."""
        self._local = local
        self._offset = timedelta(0)

    def now(self) -> datetime:
        """Return the current time."""
        return self._local() + self._offset

    def update(self, date: str | None) -> None:
        """Take the ``Date`` header of a response that has just arrived."""
        try:
            server_time = parsedate_to_datetime(date or "")
        except ValueError:
            return
        offset = server_time.astimezone(UTC) - self._local()
        if abs(offset) <= TOLERANCE:
            offset = timedelta(0)
        if abs(offset - self._offset) <= TOLERANCE and bool(offset) == bool(self._offset):
            return
        seconds = round(-offset.total_seconds())
        _LOG.warning("clock offset from the API server changed", seconds_ahead=seconds, in_use="the API server's")
        self._offset = offset
