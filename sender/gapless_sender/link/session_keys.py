"""The current session key: creates it, announces it to the receiver, and replaces it on schedule.

Must not know how a key encrypts, nor the rules of timing: see `key_schedule`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gapless_sender.wire.encryption import KeyExchange, SessionKey
from gapless_sender.wire.key_schedule import KeyDuty, KeySchedule, KeyTimings

if TYPE_CHECKING:
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.pace.pacing import Clock


class AnnouncedKeys:
    """Creates keys and announces them to the receiver."""

    def __init__(  # noqa: PLR0913 -- one for each setting
        self,
        exchange: KeyExchange,
        link: UdpLink,
        *,
        payload_size: int,
        timings: KeyTimings,
        every_seconds: float,
        clock: Clock,
        given: SessionKey | None = None,
    ) -> None:
        """`every_seconds` 0 means no replacement by age; an exhausted key is replaced in any case.

        A `given` key, which other programs use too, is announced and never replaced.
        """
        self._exchange = exchange
        self._link = link
        self._payload_size = payload_size
        self._schedule = KeySchedule(timings, rotate_every_seconds=every_seconds)
        self._clock = clock
        self._given = given
        self._key: SessionKey | None = None
        self._packets: list[bytes] = []
        self.announced = 0
        """How many keys were announced; a key counts from its first announcement on."""

    @property
    def key(self) -> bytes:
        """A copy of the current key, for processes that encrypt with it. Raises ValueError when there is none."""
        if self._key is None:
            raise ValueError("no session key has been created")
        return self._key.key

    @property
    def duty(self) -> KeyDuty:
        """What to do before the next batch."""
        if self._key is None:
            return KeyDuty.ROTATE
        return self._schedule.due(self._clock.now(), exhausted=self._key.exhausted)

    def current(self) -> SessionKey:
        """Do what is due, and return the key for the next batch: the receiver has it."""
        duty = self.duty
        if self._key is None or duty is KeyDuty.ROTATE:
            return self.replace()
        if duty is KeyDuty.REANNOUNCE:
            self.reannounce()
        return self._key

    def release(self) -> None:
        """Do nothing: no other process uses these keys."""

    def replace(self) -> SessionKey:
        """Create a key, announce it and wait until the receiver has it; no events may be sent meanwhile."""
        for seconds in self.replacement():
            self._clock.sleep(seconds)
        assert self._key is not None  # noqa: S101 -- the replacement has created it
        return self._key

    def replacement(self) -> Iterator[float]:
        """Replace the key in steps; yields how many seconds to wait before the next one.

        At the end the receiver has the key that `key` returns.
        """
        steps = self._schedule.first_announcement() if self._key is None else self._schedule.rotation(self._clock.now())
        if self._key is not None:
            self._key.destroy()
        self._key = self._given or SessionKey.generate()
        self._packets = self._exchange.packets(self._key, self._payload_size)
        first = True
        for step in steps:
            yield step.wait_seconds
            if step.send:
                self.reannounce()
                self.announced += first
                first = False
        self._schedule.in_use(self._clock.now())

    def reannounce(self) -> None:
        """Send the datagrams of the current key again."""
        self._link.send(self._packets)
        self._schedule.announced(self._clock.now())
