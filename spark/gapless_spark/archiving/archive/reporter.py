"""Owns when the status of a run is reported: as a line for the operator, and as metrics."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_api.wire.archive_progress import ARCHIVE_LINE
from gapless_spark.archiving.archive.status import status_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_spark.archiving.archive.metrics import ArchiveMetrics
    from gapless_spark.archiving.archive.status import RunStatus


class StatusReporter:
    """Reports the status within a ``with`` block."""

    def __init__(self, interval_seconds: float, metrics_port: int | None) -> None:
        """Open the metrics port, if there is one. Raises ConfigurationError.

        Args:
            interval_seconds: between lines; 0 for no lines. A terminal gets none.
            metrics_port: ``None`` for no metrics.
        """
        self._interval_seconds = 0.0 if sys.stderr.isatty() else interval_seconds
        self._due = float("-inf")
        self._failure = ""
        """The last unexpected error, which is logged once."""
        self._metrics: ArchiveMetrics | None = None
        if metrics_port is not None:
            from gapless_spark.archiving.archive.metrics import ArchiveMetrics  # noqa: PLC0415 -- rarely needed

            self._metrics = ArchiveMetrics(metrics_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._metrics is not None:
            self._metrics.close()

    def report(self, status: Callable[[], RunStatus], *, is_last: bool = False) -> None:
        """Report the status after a snapshot of Kafka; a line is written when it is due, or is the last one.

        An exception that no rule expects is logged: records are archived on.
        """
        try:
            self._report(status, is_last=is_last)
        except (GaplessError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 -- the status is not the work
            message = unexpected_sentence("The status of the archive was not reported", error)
            if message != self._failure:
                log_unexpected(_log(), "status not reported", message, error)
            self._failure = message

    def _report(self, status: Callable[[], RunStatus], *, is_last: bool) -> None:
        current = status()
        if self._metrics is not None:
            self._metrics.show(current)
        now = time.monotonic()
        if self._interval_seconds and (is_last or now >= self._due):
            self._due = now + self._interval_seconds
            sys.stderr.write(ARCHIVE_LINE.to_line(status_line(current)) + "\n")
            sys.stderr.flush()


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
