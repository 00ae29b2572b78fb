"""Owns the file from which a running resend takes its rates: what may stand in it, and when it is looked at again.

Must not know what the rates are for. A file that cannot be understood changes nothing while a resend runs: it is said
once, and the rates stay as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.hangup import on_hangup
from gapless_api.base.settings import read_properties
from gapless_sender.base.lazy_log import log
from gapless_sender.settings.pace import PACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gapless_sender.pace.pacing import Clock

RATES = ("eps", "bitsPerSecond", "budgetEps", "budgetBitsPerSecond")
"""Settings that such a file may hold, as a properties file does."""
LOOK_SECONDS = 1.0
"""How often the file is looked at; a volume of Kubernetes shows a change after about a minute anyway."""
_SETTINGS = {name: setting for setting in PACE if setting.name in RATES for name in (setting.name, *setting.aliases)}
_Mark = tuple[int, int, int, int] | None
"""What tells one content of a path from another; ``None`` for no file."""


def read_rates(path: Path) -> dict[str, float]:
    """Read the rates that `path` holds; one that is not in it is not in the answer.

    Raises:
        ConfigurationError: the file is missing, or holds anything else.
    """
    found: dict[str, float] = {}
    for number, name, text in read_properties(path):
        setting = _SETTINGS.get(name)
        if setting is None:
            raise ConfigurationError(
                f"Line {number} of the rate file {path} sets {name[:60]!r}; only {', '.join(RATES)} can be set there."
            )
        try:
            found[setting.name] = setting.parse(text)
        except ValueError as error:
            raise ConfigurationError(
                f"{setting.name} in line {number} of the rate file {path} is {text[:60]!r}; it must be {error}."
            ) from None
    return found


def with_rates(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the rates of their rate file in them, if there is one; what it does not name stays.

    Raises:
        ConfigurationError: see `read_rates`.
    """
    path: Path | None = values["rateFile"]
    return dict(values) if path is None else {**values, **read_rates(path)}


class RateFollower:
    """Looks at the rate file now and then, and at once after SIGHUP; the `Clock` of a pace, which asks in its naps."""

    def __init__(self, path: Path, clock: Clock, changed: Callable[[Mapping[str, float]], None]) -> None:
        """`changed` is called with what the file holds whenever that may be something new.

        It raises ConfigurationError if these rates cannot be used.
        """
        self._path = path
        self._clock = clock
        self._changed = changed
        self._asked = True  # The file may have changed since it was read at the start.
        self._mark: _Mark = None
        self._looked_at = clock.now()
        self._rests = False

    def rest(self) -> None:
        """Look no more: another process does."""
        self._rests = True

    def listen(self) -> None:
        """Take SIGHUP from now on."""
        on_hangup(self._ask)

    def _ask(self) -> None:
        self._asked = True

    def follow(self) -> None:
        """Take over what the file holds, if it is time to look and there is something new."""
        now = self._clock.now()
        if self._rests or (not self._asked and 0 <= now - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = now
        mark = self._file_mark()  # Before it is read: what is written meanwhile is found the next time.
        if mark == self._mark and not self._asked:
            return
        self._asked, self._mark = False, mark
        try:
            self._changed(read_rates(self._path))
        except ConfigurationError as error:
            log("warning", "the rates stay as they were", reason=str(error))

    def _file_mark(self) -> _Mark:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def now(self) -> float:
        """Seconds of the clock behind it."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Look at the file, then sleep as the clock behind it does."""
        self.follow()
        self._clock.sleep(seconds)
