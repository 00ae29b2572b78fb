"""Owns how a link test sends: step by step, at the rates of its plan; must not know how they were chosen or are shown.

A step ends when all its probes are out, or when it has taken twice its time (and five seconds) because this machine or
its network cannot keep up: then fewer are out, and the rate that counts is the one that was reached.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import GaplessError
from gapless_sender.link_test.form import Kind, ProbeMaker, Step
from gapless_sender.pace.pacing import Pace, wire_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.link_test.steps import Plan, PlannedStep
    from gapless_sender.pace.pacing import Clock

MOST_AT_ONCE = 256
PATIENCE = 2.0
LEAST_PATIENCE_SECONDS = 5.0
"""So many times its time may a step take, and so much more than its time in any case."""
LAST_WORDS_SECONDS = 0.5
"""So long the other side is told about the end of a run over a link that is away."""
ENDINGS = 4
"""Times that the end of a step is told, for a datagram may be lost."""
ENDING_GAP_SECONDS = 0.05
SETTLING_SECONDS = 0.2
"""Before the end of a step is told, so that queues on the way have let go of it."""


class SentStep(NamedTuple):
    """What went out in one step."""

    number: int
    asked_per_second: float
    planned: int
    sent: int
    seconds: float
    wire_bytes: int
    """Of one datagram."""
    waits: int
    """Times that the network of this machine was full or away."""
    refused: int
    """Times that a host answered "port unreachable": nobody listens, and there is no diode in between."""

    @property
    def per_second(self) -> float:
        """The rate that was reached, in datagrams."""
        return self.sent / self.seconds if self.seconds else 0.0

    @property
    def bits_per_second(self) -> float:
        """The same in bits on the wire."""
        return self.per_second * self.wire_bytes * 8


class Run:
    """One link test."""

    def __init__(self, link: UdpLink, plan: Plan, *, number: int, payload_bytes: int, clock: Clock) -> None:
        """`number` tells this run from others; the `clock` may end the work."""
        self._link = link
        self._plan = plan
        self._clock = clock
        self._payload_bytes = payload_bytes
        self.number = number
        self._makers: list[tuple[ProbeMaker, SentStep]] = []

    def go(self) -> Iterator[SentStep]:
        """Send every step, and give account of each after it.

        Raises:
            GaplessError: the link took no more, or someone asked to stop; what is out has been given account of, and
                the other side is told if that is possible.
        """
        error: GaplessError | None = None
        for index, step in enumerate(self._plan.steps):
            account, error = self._sent(index + 1, step)
            if account.sent:
                yield account
            if error is None and index + 1 < len(self._plan.steps):
                try:
                    self._clock.sleep(self._plan.pause_seconds)
                except GaplessError as stopped:
                    error = stopped
            if error is not None:
                break
        self._tell_all()
        if error is not None:
            raise error

    def _sent(self, number: int, planned: PlannedStep) -> tuple[SentStep, GaplessError | None]:
        link, stats = self._link, self._link.stats
        pace = Pace(planned.datagrams_per_second, clock=self._clock)
        maker = ProbeMaker(
            Step(
                self.number,
                number,
                len(self._plan.steps),
                link.header_bytes,
                self._payload_bytes,
                planned.datagrams,
                round(planned.datagrams_per_second * 1000),
            )
        )
        bits = wire_bits(self._payload_bytes, 1, link.header_bytes)
        at_once = min(pace.largest_burst(1, bits), MOST_AT_ONCE)
        datagrams, waits, refused = stats.datagrams, stats.retries, stats.refused
        error: GaplessError | None = None
        began = self._clock.now()
        own_seconds = self._plan.step_seconds
        latest = began + max(own_seconds * PATIENCE, own_seconds + LEAST_PATIENCE_SECONDS)
        first = 0
        try:
            while first < planned.datagrams and (now := self._clock.now()) < latest:
                count = min(at_once, planned.datagrams - first)
                pace.admit(count, count * bits)
                at = int((now - began) * 1e6)
                link.send([maker.make(Kind.PROBE, first + index, at) for index in range(count)])
                first += count
        except GaplessError as ended:
            error = ended
            link.deadline_seconds = min(link.deadline_seconds, LAST_WORDS_SECONDS)
        sent = stats.datagrams - datagrams
        account = SentStep(
            number=number,
            asked_per_second=planned.datagrams_per_second,
            planned=planned.datagrams,
            sent=sent,
            # The last burst leaves a little early; a step of few probes would look faster than it was.
            seconds=max(self._clock.now() - began, sent / planned.datagrams_per_second),
            wire_bytes=self._payload_bytes + link.header_bytes,
            waits=stats.retries - waits,
            refused=stats.refused - refused,
        )
        if account.sent:
            self._makers.append((maker, account))
            self._tell(Kind.STEP_ENDED, maker, account, times=ENDINGS)
        return account, error

    def _tell_all(self) -> None:
        """Say once more how each step ended, and that the run has."""
        for maker, account in self._makers:
            self._tell(Kind.STEP_ENDED, maker, account, times=1)
        for maker, account in self._makers[-1:]:
            self._tell(Kind.RUN_ENDED, maker, account, times=ENDINGS)

    def _tell(self, kind: Kind, maker: ProbeMaker, account: SentStep, *, times: int) -> None:
        """Say how a step ended; a link that is away, or a wish to stop, does not take longer by that."""
        if times > 1:
            time.sleep(SETTLING_SECONDS)
        for _ in range(times):
            with contextlib.suppress(GaplessError):
                self._link.send([maker.make(kind, account.sent, int(account.seconds * 1e6))])
            time.sleep(ENDING_GAP_SECONDS)
