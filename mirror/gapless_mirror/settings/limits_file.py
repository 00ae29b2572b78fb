"""The limits file: it is read again when it changes; an invalid file leaves the limits unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import SettingsTable, resolve
from gapless_mirror.lanes.limits import Rates
from gapless_mirror.settings.values import LIMIT_SETTINGS

_TABLE = SettingsTable("GAPLESS_MIRROR_LIMITS_", LIMIT_SETTINGS)
_CHECK_SECONDS = 1.0


def read_rates(file: Path, default: Rates, processes: int) -> Rates:
    """Return the limits of a file for each of `processes` processes; a limit that it does not set is the default.

    Raises:
        ConfigurationError: the file cannot be read, or a line is invalid.
    """
    values = resolve(_TABLE, file=file, environment={}, options={}).values
    size, records = values["maxBytesPerSecond"], values["maxRecordsPerSecond"]
    return Rates(
        default.bytes_per_second if size is None else size / processes,
        default.records_per_second if records is None else records / processes,
    )


class LimitsFile:
    """Watches a limits file."""

    def __init__(
        self, file: Path, default: Rates, processes: int, *, on_error: Callable[[ConfigurationError], None]
    ) -> None:
        """Read nothing yet.

        Args:
            file: with lines key=value.
            default: for limits that the file does not set, already divided.
            processes: which share the limits.
            on_error: called once for each version of the file that cannot be read.
        """
        self._file, self._default, self._processes, self._on_error = file, default, processes, on_error
        self._version: tuple[int, int, int] | None = None
        self._check_at = 0.0

    def changed(self) -> Rates | None:
        """Return the rates if the file has changed since the last call, otherwise ``None``."""
        now = time.monotonic()
        if now < self._check_at:
            return None
        self._check_at = now + _CHECK_SECONDS
        try:
            status = self._file.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            version = (0, 0, 0)
        if version == self._version:
            return None
        self._version = version
        try:
            return read_rates(self._file, self._default, self._processes)
        except ConfigurationError as error:
            self._on_error(error)
            return None
