"""Owns the session key in use: makes it, brings it to the receiver and replaces it when the schedule says so.

Must not know how a key encrypts, nor the rules of timing: those are `key_schedule`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_sender.wire.encryption import SessionKey
from gapless_sender.wire.key_schedule import KeyDuty, KeySchedule, KeyTimings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.pace.pacing import Clock
    from gapless_sender.wire.encryption import KeyExchange


class AnnouncedKeys:
    """Makes keys and brings them to the receiver."""

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
        """`every_seconds` is 0 for no replacement by age; a key that has encrypted enough is replaced in any case.

        With a `given` key, which other programs use too, nothing is replaced: it is announced and stays.
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
        """How many keys the receiver was given; one counts from its first announcement on."""

    @property
    def key(self) -> bytes:
        """A copy of the present key, for processes that encrypt with it. Raises ValueError when there is none."""
        if self._key is None:
            raise ValueError("no session key has been made")
        return self._key.key

    @property
    def duty(self) -> KeyDuty:
        """What is to be done before the next batch."""
        if self._key is None:
            return KeyDuty.ROTATE
        return self._schedule.due(self._clock.now(), exhausted=self._key.exhausted)

    def current(self) -> SessionKey:
        """The key for the next batch, after whatever is due: the receiver has it."""
        duty = self.duty
        if self._key is None or duty is KeyDuty.ROTATE:
            return self.replace()
        if duty is KeyDuty.REANNOUNCE:
            self.reannounce()
        return self._key

    def release(self) -> None:
        """Take note that nothing is under way with the key that `current` gave; nobody else uses these keys."""

    def replace(self) -> SessionKey:
        """Make a new key, announce it and wait until the receiver must have it; nobody may send events meanwhile."""
        for seconds in self.replacement():
            self._clock.sleep(seconds)
        assert self._key is not None  # noqa: S101 -- the replacement has made it
        return self._key

    def replacement(self) -> Iterator[float]:
        """The same in parts, for whoever has to look after other things meanwhile: yields how long to wait, in seconds.

        At the end the receiver must have the key that `key` is.
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
        """Send the present key once more, the very same datagrams."""
        self._link.send(self._packets)
        self._schedule.announced(self._clock.now())
