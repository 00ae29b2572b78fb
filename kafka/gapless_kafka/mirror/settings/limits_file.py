"""Owns the file of limits: it is read again when it changes, and a file that cannot be read changes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import SettingsTable, resolve
from gapless_kafka.mirror.lanes.limits import Rates
from gapless_kafka.mirror.settings.table import LIMIT_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TABLE = SettingsTable("GAPLESS_MIRROR_LIMITS_", LIMIT_SETTINGS)
_LOOK_EVERY_SECONDS = 1.0


def read_rates(file: Path, default: Rates, processes: int) -> Rates:
    """The part of each of some processes in the limits of a file; a limit that it does not name is the default's.

    Raises:
        ConfigurationError: the file cannot be read, or a line is wrong.
    """
    found = resolve(_TABLE, file=file, environment={}, options={}).values
    size, records = found["maxBytesPerSecond"], found["maxRecordsPerSecond"]
    return Rates(
        default.bytes_per_second if size is None else size / processes,
        default.records_per_second if records is None else records / processes,
    )


class LimitsFile:
    """Watches a file of limits."""

    def __init__(
        self, file: Path, default: Rates, processes: int, *, failed: Callable[[ConfigurationError], None]
    ) -> None:
        """Nothing is read yet.

        Args:
            file: with lines key=value.
            default: what is in force for what the file does not name.
            processes: which share the limits.
            failed: called once for each state of the file that cannot be read.
        """
        self._file, self._default, self._processes, self._failed = file, default, processes, failed
        self._seen: tuple[int, int, int] | None = None
        self._look_at = 0.0

    def changed(self) -> Rates | None:
        """The rates of a file that has changed since the last call; ``None`` for no change."""
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_EVERY_SECONDS
        try:
            found = self._file.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            state = (0, 0, 0)
        if state == self._seen:
            return None
        self._seen = state
        try:
            return read_rates(self._file, self._default, self._processes)
        except ConfigurationError as error:
            self._failed(error)
            return None
