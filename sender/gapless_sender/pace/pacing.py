"""When datagrams may be sent: at most so many events and bits per second, in bounded bursts.

Must not know what is sent nor how. Several processes of one machine can share one `PaceState`, and then keep one rate
together.

The model is the generic cell rate algorithm. A limit has a *due time*: when all that was admitted so far is due at
exactly the rate. A burst may run `burst_seconds` ahead of it; then the sender sleeps until it is reached. Oversleeping
costs nothing, because the due time does not move: the sender catches up, by at most `CATCH_UP_SECONDS` and at no more
than `CATCH_UP_FACTOR` times the rate, so that no stall ends in a long burst.
"""

from __future__ import annotations

import math
import time
from typing import Protocol

from gapless_sender.pace.pace_state import PaceState

BURST_SECONDS = 0.005
"""The part of a second's traffic that may be sent at once: 250 events of 50,000/s."""
CATCH_UP_SECONDS = 0.015
"""How far the sender catches up after a stall; with one burst it is 2 % of a second, the most that one can exceed."""
CATCH_UP_FACTOR = 4.0
"""With less, sleeps that last 2 ms too long (a busy machine) leave no time to catch up."""
MAX_SLEEP_SECONDS = 0.25
"""The longest sleep at once, after which a changed rate or a request to stop is noticed, even at one event an hour."""


class Clock(Protocol):
    """The sender's clock. `sleep` may raise to end the work, such as StoppedError after a signal."""

    def now(self) -> float:
        """Seconds of a clock that never jumps and that all processes of this machine share."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`, or a little later."""


class SystemClock:
    """CLOCK_MONOTONIC, which does not change with the date."""

    def now(self) -> float:
        """Seconds since this machine started."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        time.sleep(seconds)


_EVENTS, _BITS = 0, 1
_CATCH_UP = 2
"""Index from the due time of a limit to that of its catching up."""


class Pace:
    """Admits traffic at a rate of events and bits per second, or both.

    Bits are those on the wire above Ethernet: payload, UDP and IP headers (see `wire_bits`). Copies of a datagram are
    traffic and cost bits; an event is counted once however many datagrams and copies carry it.
    """

    def __init__(
        self,
        events_per_second: float | None = None,
        bits_per_second: float | None = None,
        *,
        burst_seconds: float = BURST_SECONDS,
        clock: Clock | None = None,
        state: PaceState | None = None,
    ) -> None:
        """``None``, 0 and less mean no limit (two ``None`` keep the limits of a given `state`).

        Args:
            events_per_second: the limit in events.
            bits_per_second: the limit in bits.
            burst_seconds: the part of a second's traffic that may be sent at once.
            clock: for tests and for a sleep that can be interrupted.
            state: shared by all processes that keep these limits together; ``None`` for this process alone.
        """
        self._burst_seconds = burst_seconds
        self._clock = clock or SystemClock()
        self._state = state or PaceState()
        if state is None or events_per_second is not None or bits_per_second is not None:
            self.set_rates(events_per_second, bits_per_second)

    def set_rates(self, events_per_second: float | None = None, bits_per_second: float | None = None) -> None:
        """Change the limits while running; the wait for admitted traffic is adapted to the new rate.

        They change for all who share the state, unless it is in a file, for which each program sets its own rates.
        There a slower rate begins with the next admission, so that several programs which all change to it do not
        prolong each other's wait; a faster one shortens the wait for what was admitted before.
        """
        now = self._clock.now()
        dues, rates = self._state.dues, self._state.rates
        self._state.lock()
        try:
            for limit, rate in ((_EVENTS, events_per_second), (_BITS, bits_per_second)):
                old, new = rates[limit], max(rate or 0.0, 0.0)
                rates[limit] = new
                factor = (old / new if new else 0.0) if old else 1.0
                if not self._state.shares_rates:
                    factor = min(factor, 1.0)
                for due in (limit, limit + _CATCH_UP):
                    if dues[due] > now:
                        dues[due] = now + (dues[due] - now) * factor
                    elif not old and self._state.shares_rates:
                        dues[due] = now
        finally:
            self._state.unlock()

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Events and bits per second; ``None`` for no limit."""
        return self._state.rates[_EVENTS] or None, self._state.rates[_BITS] or None

    @property
    def unlimited(self) -> bool:
        """Whether there are no limits."""
        return not (self._state.rates[_EVENTS] or self._state.rates[_BITS])

    def admit(self, events: float, bits: float) -> None:
        """Wait until `events` events and `bits` bits may be sent, and count them."""
        while (wait_seconds := self._try_admit(events, bits)) > 0.0:
            self._clock.sleep(min(wait_seconds, MAX_SLEEP_SECONDS))

    def _try_admit(self, events: float, bits: float) -> float:
        """Count the traffic and return 0, or return how many seconds to wait before the next try."""
        if self.unlimited:
            return 0.0
        dues, rates = self._state.dues, self._state.rates
        burst = self._burst_seconds
        wait_seconds = 0.0
        updates = []
        self._state.lock()
        try:
            now = self._clock.now()
            for limit, amount in ((_EVENTS, events), (_BITS, bits)):
                rate = rates[limit]
                if not rate:
                    continue
                cost = amount / rate
                due = max(dues[limit], now - CATCH_UP_SECONDS)
                catch_up = max(dues[limit + _CATCH_UP], now)
                if due > now and due + cost > now + burst:
                    wait_seconds = max(wait_seconds, due - now)
                elif catch_up > now and (catch_up - now) * CATCH_UP_FACTOR + cost > burst:
                    wait_seconds = max(wait_seconds, catch_up - now)
                updates.append((limit, due + cost, catch_up + cost / CATCH_UP_FACTOR))
            if wait_seconds <= 0.0:
                for limit, due, catch_up in updates:
                    dues[limit] = due
                    dues[limit + _CATCH_UP] = catch_up
        finally:
            self._state.unlock()
        return wait_seconds

    @property
    def burst(self) -> tuple[float, float]:
        """Events and bits that may be sent at once; infinite without a limit."""
        events_per_second, bits_per_second = self.rates
        seconds = self._burst_seconds
        return (
            events_per_second * seconds if events_per_second else math.inf,
            bits_per_second * seconds if bits_per_second else math.inf,
        )

    def largest_burst(self, events_per_datagram: float, bits_per_datagram: float) -> int:
        """Return how many such datagrams make one burst; at least 1, and a very large number without limits."""
        events_per_second, bits_per_second = self.rates
        count = 1 << 30
        for rate, amount in ((events_per_second, events_per_datagram), (bits_per_second, bits_per_datagram)):
            if rate and amount > 0:
                count = min(count, max(int(rate * self._burst_seconds / amount), 1))
        return count


class Paces:
    """Several paces that all must admit the traffic, such as a resend's own and that of the link."""

    def __init__(self, *paces: Pace) -> None:
        """Take the paces; one without limits has no effect until it gets some."""
        self._paces = paces

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Events and bits per second, the lowest of each; ``None`` for no limit."""
        events, bits = zip(*(pace.rates for pace in self._paces), strict=True) if self._paces else ((), ())
        return min(filter(None, events), default=None), min(filter(None, bits), default=None)

    @property
    def unlimited(self) -> bool:
        """Whether there are no limits."""
        return all(pace.unlimited for pace in self._paces)

    def admit(self, events: float, bits: float) -> None:
        """Wait until all paces have admitted `events` events and `bits` bits.

        They are called one after the other, so that no process has two locks.
        """
        for pace in self._paces:
            pace.admit(events, bits)

    @property
    def burst(self) -> tuple[float, float]:
        """Events and bits that may be sent at once, the fewest of each; infinite without a limit."""
        events, bits = zip(*(pace.burst for pace in self._paces), strict=True) if self._paces else ((), ())
        return min(events, default=math.inf), min(bits, default=math.inf)

    def largest_burst(self, events_per_datagram: float, bits_per_datagram: float) -> int:
        """Return how many such datagrams make one burst for all paces; at least 1."""
        bursts = (pace.largest_burst(events_per_datagram, bits_per_datagram) for pace in self._paces)
        return min(bursts, default=1 << 30)


def wire_bits(payload_bytes: int, datagrams: int, header_bytes: int) -> int:
    """Return the bits of `datagrams` with `payload_bytes` in total, each with `header_bytes` of UDP and IP."""
    return 8 * (payload_bytes + datagrams * header_bytes)
