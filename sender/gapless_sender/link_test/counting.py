"""The counts of a run's probes: which arrived, how often, in which order; must not know sockets nor advice."""

from __future__ import annotations

from typing import NamedTuple

from gapless_sender.link_test.form import Kind, Probe, Step


class Arrival(NamedTuple):
    """What the kernel reports about a datagram."""

    at: float
    """Seconds of a clock that never jumps."""
    dropped_before: int
    """Datagrams for this socket that the kernel has dropped since the previous one."""
    code_point: int | None
    time_to_live: int | None
    packet_info: bytes = b""
    """The kernel's in_pktinfo or in6_pktinfo, which has the address that the datagram was sent to."""


class StepCount:
    """The probes of one step."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.reported_sent: int | None = None
        self.reported_seconds: float | None = None
        self.ended_at: float | None = None
        self.received = 0
        """Distinct probes."""
        self.duplicates = 0
        self.disordered = 0
        """Those that arrived after a later one."""
        self.farthest = 0
        """The largest distance by which one of them was late, in probes."""
        self.damaged = 0
        self.dropped = 0
        """By the kernel of this machine, because the socket's buffer was full."""
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.code_points: set[int] = set()
        self.times_to_live: set[int] = set()
        self._seen: bytearray | None = bytearray(step.probes // 8 + 1)
        self._highest = -1

    @property
    def highest(self) -> int:
        """The highest number of a probe that has arrived; -1 for none."""
        return self._highest

    def count(self, number: int, arrival: Arrival) -> None:
        """Count the probe `number`."""
        if self._seen is None:
            return
        index, bit = number >> 3, 1 << (number & 7)
        if self._seen[index] & bit:
            self.duplicates += 1
            return
        self._seen[index] |= bit
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

    def end(self, sent: int, seconds: float, at: float) -> None:
        """Record the sender's report about the step."""
        self.reported_sent, self.reported_seconds = sent, seconds
        self.ended_at = self.ended_at if self.ended_at is not None else at

    def close(self) -> None:
        """Free the memory for single probes; nothing is counted from now on."""
        self._seen = None


class RunCount:
    """The steps of one run."""

    def __init__(self, probe: Probe, at: float, packet_info: bytes = b"") -> None:
        """Begin with `probe`, which arrived with `packet_info` (see `Arrival`)."""
        self.packet_info = packet_info
        self.number = probe.step.run
        self.steps_asked = probe.step.steps
        self.header_bytes = probe.step.header_bytes
        self.payload_bytes = probe.step.payload_bytes
        self.steps: dict[int, StepCount] = {}
        self.end_reported = False
        self.last_at = at
        self._current: StepCount | None = None

    @property
    def latest_step(self) -> int:
        """The number of the last step of which something arrived."""
        return max(self.steps, default=0)

    def belongs(self, step: Step) -> bool:
        """Return whether `step` agrees with the probes before; if not, it comes from another sender."""
        known = self.steps.get(step.number)
        same = (step.steps, step.header_bytes, step.payload_bytes) == (
            self.steps_asked,
            self.header_bytes,
            self.payload_bytes,
        )
        return same and (known is None or known.step == step)

    def count(self, probe: Probe, arrival: Arrival) -> None:
        """Count `probe`, which belongs to the run."""
        step = self.steps.get(probe.step.number)
        if step is None:
            step = self.steps[probe.step.number] = StepCount(probe.step)
        if self._current is None or step.step.number > self._current.step.number:
            self._current = step
        if probe.kind == Kind.PROBE:
            step.count(probe.number, arrival)
        else:
            step.end(probe.number, probe.microseconds / 1e6, arrival.at)
            self.end_reported |= probe.kind == Kind.RUN_ENDED
        self.last_at = arrival.at

    def count_dropped(self, count: int) -> None:
        """Count `count` datagrams of the current step that the kernel dropped."""
        if self._current is not None:
            self._current.dropped += count

    def count_damaged(self) -> None:
        """Count a probe of the current step whose bytes were changed."""
        if self._current is not None:
            self._current.damaged += 1

    def close(self) -> None:
        """Free the memory for single probes."""
        for step in self.steps.values():
            step.close()
