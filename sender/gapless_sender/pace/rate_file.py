"""The file from which a running resend takes its rates: its content, and when it is read again.

Must not know what the rates are for. While a resend runs, an invalid file changes nothing: a warning is logged once,
and the rates stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.hangup import on_hangup
from gapless_api.base.properties_file import read_properties
from gapless_sender.base.lazy_log import log
from gapless_sender.settings.pace import PACE

if TYPE_CHECKING:
    from gapless_sender.pace.pacing import Clock

RATES = ("eps", "bitsPerSecond", "budgetEps", "budgetBitsPerSecond")
"""The rates of such a file, which is a properties file."""
_NAMES = (*RATES, "unlimited")
"""Its settings; ``unlimited`` counts when a resend starts."""
CHECK_SECONDS = 1.0
"""How often the file is checked; Kubernetes updates a volume after about a minute anyway."""
_SETTINGS = {name: setting for setting in PACE if setting.name in _NAMES for name in (setting.name, *setting.aliases)}
_Version = tuple[int, int, int, int] | None
"""Identifies one content of the file; ``None`` for no file."""


def read_rates(path: Path) -> dict[str, float]:
    """Return the settings in `path`.

    Raises:
        ConfigurationError: the file is missing, or contains anything else.
    """
    found: dict[str, float] = {}
    for number, name, text in read_properties(path):
        setting = _SETTINGS.get(name)
        if setting is None:
            raise ConfigurationError(
                f"Line {number} of the rate file {path} sets {name[:60]!r}; only {', '.join(_NAMES)} can be set there."
            )
        try:
            found[setting.name] = setting.parse(text)
        except ValueError as error:
            raise ConfigurationError(
                f"{setting.name} in line {number} of the rate file {path} is {text[:60]!r}; it must be {error}."
            ) from None
    return found


def with_rates(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings, with the rates of their rate file if there is one.

    Raises:
        ConfigurationError: see `read_rates`.
    """
    path: Path | None = values["rateFile"]
    return dict(values) if path is None else {**values, **read_rates(path)}


class RateFollower:
    """Checks the rate file regularly and after SIGHUP; the `Clock` of a pace, so that it also checks during sleeps."""

    def __init__(self, path: Path, clock: Clock, on_change: Callable[[Mapping[str, float]], None]) -> None:
        """`on_change` is called with the rates when the file may have changed.

        It raises ConfigurationError if these rates cannot be used.
        """
        self._path = path
        self._clock = clock
        self._on_change = on_change
        self._is_due = True  # The file may have changed since it was read at the start.
        self._version: _Version = None
        self._checked_at = clock.now()
        self._is_stopped = False

    def stop(self) -> None:
        """Check the file no more: another process does."""
        self._is_stopped = True

    def listen(self) -> None:
        """Handle SIGHUP from now on."""
        on_hangup(self._request_check)

    def _request_check(self) -> None:
        self._is_due = True

    def follow(self) -> None:
        """Apply the rates of the file, if it is time to check it and it has changed."""
        now = self._clock.now()
        if self._is_stopped or (not self._is_due and 0 <= now - self._checked_at < CHECK_SECONDS):
            return
        self._checked_at = now
        version = self._file_version()  # Before reading: a change in between is found by the next check.
        if version == self._version and not self._is_due:
            return
        self._is_due, self._version = False, version
        try:
            self._on_change(read_rates(self._path))
        except ConfigurationError as error:
            log("warning", "the rates stay unchanged", reason=str(error))

    def _file_version(self) -> _Version:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def now(self) -> float:
        """Seconds of the underlying clock."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Check the file, then sleep like the underlying clock."""
        self.follow()
        self._clock.sleep(seconds)
