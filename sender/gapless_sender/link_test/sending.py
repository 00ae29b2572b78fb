"""How a link test sends: step by step, at the rates of its plan; must not know how they were chosen or are shown.

A step ends when all its probes were sent, or when it has taken twice its time (and five seconds) because this machine
or its network cannot keep up: then fewer were sent, and the rate that counts is the one that was reached.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import GaplessError
from gapless_sender.link_test.form import Kind, ProbeMaker, Step
from gapless_sender.pace.pacing import Clock, Pace, wire_bits

if TYPE_CHECKING:
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.link_test.steps import Plan, PlannedStep

MAX_BURST_DATAGRAMS = 256
MAX_TIME_FACTOR = 2.0
MIN_OVERTIME_SECONDS = 5.0
"""A step may take this multiple of its time, or this much more, whichever is longer."""
END_DEADLINE_SECONDS = 0.5
"""How long to try to report the end of a run over a link that is down."""
END_COPIES = 4
"""How often the end of a step is reported, because a datagram may be lost."""
END_GAP_SECONDS = 0.05
SETTLING_SECONDS = 0.2
"""Before the end of a step is reported, so that queues on the path are empty."""


class SentStep(NamedTuple):
    """What was sent in one step."""

    number: int
    asked_per_second: float
    planned: int
    sent: int
    seconds: float
    wire_bytes: int
    """Of one datagram."""
    waits: int
    """How often sending waited for a full queue or a link that is down."""
    refused: int
    """How often a host replied "port unreachable": no program listens, and there is no diode in between."""
    interface_drops: int
    """Datagrams, of any program, that the interface dropped meanwhile."""
    interrupted: bool
    """Whether the link was interrupted meanwhile."""

    @property
    def left_interface(self) -> int:
        """Sent datagrams that have left the interface, at least."""
        return max(0, self.sent - self.interface_drops)

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
        """`number` identifies this run; the `clock` may end the work."""
        self._link = link
        self._plan = plan
        self._clock = clock
        self._payload_bytes = payload_bytes
        self.number = number
        self._makers: list[tuple[ProbeMaker, SentStep]] = []

    def go(self) -> Iterator[SentStep]:
        """Send all steps, and yield each afterwards.

        Raises:
            GaplessError: the link accepts no more, or the work was stopped; what was sent was yielded before, and
                reported to the other side if possible.
        """
        error: GaplessError | None = None
        for index, planned in enumerate(self._plan.steps):
            sent, error = self._send_step(index + 1, planned)
            if sent.sent:
                yield sent
            if error is None and index + 1 < len(self._plan.steps):
                try:
                    self._clock.sleep(self._plan.pause_seconds)
                except GaplessError as stopped:
                    error = stopped
            if error is not None:
                break
        self._report_all_ends()
        if error is not None:
            raise error

    def _send_step(self, number: int, planned: PlannedStep) -> tuple[SentStep, GaplessError | None]:
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
        burst = min(pace.largest_burst(1, bits), MAX_BURST_DATAGRAMS)
        link.begin()
        drops = link.interface_drops()
        interruptions: list[int] = []
        datagrams, waits, refused = stats.datagrams, stats.retries, stats.refused
        error: GaplessError | None = None
        started = self._clock.now()
        step_seconds = self._plan.step_seconds
        deadline = started + max(step_seconds * MAX_TIME_FACTOR, step_seconds + MIN_OVERTIME_SECONDS)
        first = 0
        try:
            while first < planned.datagrams and (now := self._clock.now()) < deadline:
                count = min(burst, planned.datagrams - first)
                pace.admit(count, count * bits)
                at = int((now - started) * 1e6)
                link.send([maker.make(Kind.PROBE, first + index, at) for index in range(count)])
                first += count
            link.settle_replies()
            link.confirm(lambda: interruptions.append(number))
        except GaplessError as ended:
            error = ended
            link.deadline_seconds = min(link.deadline_seconds, END_DEADLINE_SECONDS)
        sent = stats.datagrams - datagrams
        step = SentStep(
            number=number,
            asked_per_second=planned.datagrams_per_second,
            planned=planned.datagrams,
            sent=sent,
            # The last burst is sent a little early; a step of few probes would look faster than it was.
            seconds=max(self._clock.now() - started, sent / planned.datagrams_per_second),
            wire_bytes=self._payload_bytes + link.header_bytes,
            waits=stats.retries - waits,
            refused=stats.refused - refused,
            interface_drops=link.interface_drops() - drops,
            interrupted=bool(interruptions),
        )
        if step.sent:
            self._makers.append((maker, step))
            self._report_end(Kind.STEP_ENDED, maker, step, copies=END_COPIES)
        return step, error

    def _report_all_ends(self) -> None:
        """Report the end of each step again, and the end of the run."""
        for maker, step in self._makers:
            self._report_end(Kind.STEP_ENDED, maker, step, copies=1)
        for maker, step in self._makers[-1:]:
            self._report_end(Kind.RUN_ENDED, maker, step, copies=END_COPIES)

    def _report_end(self, kind: Kind, maker: ProbeMaker, step: SentStep, *, copies: int) -> None:
        """Report the end of a step; errors of the link and requests to stop are ignored."""
        if copies > 1:
            time.sleep(SETTLING_SECONDS)
        for _ in range(copies):
            with contextlib.suppress(GaplessError):
                self._link.send([maker.make(kind, step.sent, int(step.seconds * 1e6))])
            time.sleep(END_GAP_SECONDS)
