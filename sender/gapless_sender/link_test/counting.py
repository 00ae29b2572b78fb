"""Owns what became of a run's probes: which arrived, how often, in which order; must not know sockets nor advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_sender.link_test.form import Kind

if TYPE_CHECKING:
    from gapless_sender.link_test.form import Probe, Step


class Arrival(NamedTuple):
    """What the kernel says about a datagram."""

    at: float
    """Seconds of a clock that never jumps."""
    dropped_before: int
    """Datagrams for our socket that the kernel has dropped since the one before."""
    code_point: int | None
    time_to_live: int | None


class StepCount:
    """The probes of one step."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.told_sent: int | None = None
        self.told_seconds: float | None = None
        self.ended_at: float | None = None
        self.received = 0
        """Different ones."""
        self.duplicates = 0
        self.disordered = 0
        """Those that arrived after a later one."""
        self.farthest = 0
        """The most places by which one of them was late."""
        self.damaged = 0
        self.dropped = 0
        """By the kernel of this machine, because our socket was full."""
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.code_points: set[int] = set()
        self.times_to_live: set[int] = set()
        self._seen: bytearray | None = bytearray(step.probes // 8 + 1)
        self._highest = -1

    @property
    def highest(self) -> int:
        """The number of the latest probe that has arrived; -1 for none."""
        return self._highest

    def take(self, number: int, arrival: Arrival) -> None:
        """Count the probe `number`."""
        if self._seen is None:
            return
        place, bit = number >> 3, 1 << (number & 7)
        if self._seen[place] & bit:
            self.duplicates += 1
            return
        self._seen[place] |= bit
        self.received += 1
        if number > self._highest:
            self._highest = number
        else:
            self.disordered += 1
            self.farthest = max(self.farthest, self._highest - number)
        if self.first_at is None:
            self.first_at = arrival.at
        self.last_at = arrival.at
        if arrival.code_point is not None:
            self.code_points.add(arrival.code_point)
        if arrival.time_to_live is not None:
            self.times_to_live.add(arrival.time_to_live)

    def ended(self, sent: int, seconds: float, at: float) -> None:
        """Take what the sender says about the step."""
        self.told_sent, self.told_seconds = sent, seconds
        self.ended_at = self.ended_at if self.ended_at is not None else at

    def close(self) -> None:
        """Let go of the memory of single probes; nothing is counted from now on."""
        self._seen = None


class RunCount:
    """The steps of one run."""

    def __init__(self, probe: Probe, at: float) -> None:
        self.number = probe.step.run
        self.steps_asked = probe.step.steps
        self.header_bytes = probe.step.header_bytes
        self.payload_bytes = probe.step.payload_bytes
        self.steps: dict[int, StepCount] = {}
        self.told_end = False
        self.last_at = at
        self._current: StepCount | None = None

    @property
    def latest_step(self) -> int:
        """The number of the last step of which something has arrived."""
        return max(self.steps, default=0)

    def belongs(self, step: Step) -> bool:
        """Whether what `step` says is what was said before; what is not comes from somebody else."""
        known = self.steps.get(step.number)
        same = (step.steps, step.header_bytes, step.payload_bytes) == (
            self.steps_asked,
            self.header_bytes,
            self.payload_bytes,
        )
        return same and (known is None or known.step == step)

    def take(self, probe: Probe, arrival: Arrival) -> None:
        """Count `probe`, which belongs to the run."""
        step = self.steps.get(probe.step.number)
        if step is None:
            step = self.steps[probe.step.number] = StepCount(probe.step)
        if self._current is None or step.step.number > self._current.step.number:
            self._current = step
        if probe.kind == Kind.PROBE:
            step.take(probe.number, arrival)
        else:
            step.ended(probe.number, probe.microseconds / 1e6, arrival.at)
            self.told_end |= probe.kind == Kind.RUN_ENDED
        self.last_at = arrival.at

    def dropped(self, count: int) -> None:
        """The kernel dropped `count` datagrams; they were of the step that is under way."""
        if self._current is not None:
            self._current.dropped += count

    def damaged(self) -> None:
        """A probe of the run arrived with other bytes than were sent; it was of the step that is under way."""
        if self._current is not None:
            self._current.damaged += 1

    def close(self) -> None:
        """Let go of the memory of single probes."""
        for step in self.steps.values():
            step.close()
