"""When a session key is announced and replaced; must not know keys, packets, sockets, nor how to wait.

The rules follow from the usual receiver: it keeps one key for all senders, it ignores a key that arrives less than a
second after the one before, and it loses events that follow a key too closely (another of its threads may read them
first) or that were encrypted with the old key and are read after the new one. The link may lose the only packet with
the key. So a key is announced several times, more than a second apart, and nothing is sent until the last announcement
has settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class KeyTimings:
    """The pauses around a key. All in seconds."""

    announcements: int = 3
    """How often a new key is sent before the first event; a link with 3 % loss loses all three once in 37,000 times."""
    spacing_seconds: float = 1.2
    """From one announcement to the next; more than the second within which the receiver ignores a key."""
    settle_seconds: float = 0.5
    """From the last announcement to the first event."""
    drain_seconds: float = 1.0
    """From the last event under the old key to the new key, so that the receiver has read all that is on its way."""
    reannounce_seconds: float = 60.0
    """The interval at which the key is sent again, for a receiver that was restarted; 0 for never."""


class KeyStep(NamedTuple):
    """One step of an announcement: sleep for `wait_seconds`, then send the key's packets if `send`."""

    wait_seconds: float
    send: bool


class KeyDuty(StrEnum):
    """What to do about the key before the next batch."""

    NOTHING = "nothing"
    REANNOUNCE = "reannounce"
    """Send the packets of the current key again; no pause is needed."""
    ROTATE = "rotate"
    """Create a new key and follow the steps of `KeySchedule.rotation`."""


class KeySchedule:
    """Returns what is due. Times are seconds of any monotonic clock."""

    def __init__(self, timings: KeyTimings | None = None, *, rotate_every_seconds: float = 0.0) -> None:
        """Rotate after this time of use (0: only when a key is exhausted)."""
        self._timings = timings or KeyTimings()
        self._rotate_every_seconds = rotate_every_seconds
        self._announced: float | None = None
        self._in_use_since: float | None = None

    def first_announcement(self) -> tuple[KeyStep, ...]:
        """Return the steps before the first event."""
        return self._announcement(0.0)

    def rotation(self, now: float, *, drains: bool = True) -> tuple[KeyStep, ...]:
        """Return the steps from the last event with the old key to the first with the new one.

        The first wait drains the link, if `drains`, and is longer when the old key was announced just now.
        """
        since_announcement = now - self._announced if self._announced is not None else self._timings.spacing_seconds
        drain_seconds = self._timings.drain_seconds if drains else 0.0
        return self._announcement(max(drain_seconds, self._timings.spacing_seconds - since_announcement))

    def _announcement(self, first_wait_seconds: float) -> tuple[KeyStep, ...]:
        again = (KeyStep(self._timings.spacing_seconds, send=True),) * (self._timings.announcements - 1)
        settle = KeyStep(self._timings.settle_seconds, send=False)
        return (KeyStep(first_wait_seconds, send=True), *again, settle)

    def announced(self, now: float) -> None:
        """Record that the key's packets were sent."""
        self._announced = now

    def in_use(self, now: float) -> None:
        """Record that a new key has settled and events follow."""
        self._in_use_since = now

    def due(self, now: float, *, exhausted: bool = False) -> KeyDuty:
        """Return what to do before the next batch; `exhausted` means that the key has encrypted enough messages."""
        if exhausted:
            return KeyDuty.ROTATE
        used_since = self._in_use_since
        if self._rotate_every_seconds and used_since is not None and now - used_since >= self._rotate_every_seconds:
            return KeyDuty.ROTATE
        every = self._timings.reannounce_seconds
        if every and self._announced is not None and now - self._announced >= every:
            return KeyDuty.REANNOUNCE
        return KeyDuty.NOTHING
