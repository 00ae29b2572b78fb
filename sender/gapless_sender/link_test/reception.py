"""The runs that are being received, and when they end; must not know sockets nor how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gapless_sender.link_test.advice import Advice, StepResult, advice, results
from gapless_sender.link_test.counting import Arrival, RunCount
from gapless_sender.link_test.form import Damaged, read

STRAGGLING_SECONDS = 0.5
"""How long after its reported end probes of a step or a run may still arrive."""
MAX_CONCURRENT_RUNS = 4
MAX_FINISHED_RUNS = 100
"""Runs that a report keeps; the oldest go first."""


class FinishedStep(NamedTuple):
    """A step that has ended; a late probe may still change its counts."""

    run: int
    result: StepResult


class FinishedRun(NamedTuple):
    """A run that has ended."""

    run: int
    steps_asked: int
    payload_bytes: int
    results: tuple[StepResult, ...]
    advice: Advice
    end_reported: bool
    """Whether the sender reported the end, or it just fell silent."""
    header_bytes: int
    packet_info: bytes
    """What the kernel reported about the first probe; see `Arrival`."""


class Reception:
    """Counts what arrives."""

    def __init__(self, *, margin: float, accepted_loss: float, idle_seconds: float) -> None:
        """`margin` and `accepted_loss` are for the advice; a run ends when it is silent for `idle_seconds`."""
        self._margin = margin
        self._accepted_loss = accepted_loss
        self._idle_seconds = idle_seconds
        self._runs: dict[int, RunCount] = {}
        self._shown: dict[int, int] = {}
        self._latest: RunCount | None = None
        self._ended: dict[int, None] = {}
        self.finished: list[FinishedRun] = []
        self.foreign = 0
        """Datagrams that are not probes, or probes of more runs than `MAX_CONCURRENT_RUNS`."""
        self.late = 0
        """Probes of runs that had ended."""
        self.damaged = 0
        """Damaged probes of unknown runs."""
        self.dropped = 0
        """By the kernel, while no run was in progress."""
        self.last_probe_at: float | None = None

    @property
    def in_progress(self) -> int:
        """The number of runs in progress."""
        return len(self._runs)

    def take(self, datagram: memoryview, arrival: Arrival) -> None:
        """Count a datagram."""
        if arrival.dropped_before:
            self.drop(arrival.dropped_before)
        found = read(datagram)
        if found is None:
            self.foreign += 1
            return
        if isinstance(found, Damaged):
            self._damaged(found)
            return
        number = found.step.run
        if number in self._ended:
            self.late += 1
            return
        run = self._runs.get(number)
        if run is None:
            if len(self._runs) >= MAX_CONCURRENT_RUNS:
                self.foreign += 1
                return
            run = self._runs[number] = RunCount(found, arrival.at, arrival.packet_info)
        if not run.belongs(found.step):
            self.foreign += 1
            return
        run.count(found, arrival)
        self._latest = run
        self.last_probe_at = arrival.at

    def drop(self, count: int) -> None:
        """Count `count` datagrams for the socket that the kernel dropped."""
        if self._latest is not None:
            self._latest.count_dropped(count)
        else:
            self.dropped += count

    def _damaged(self, found: Damaged) -> None:
        run = self._runs.get(found.run)
        if run is not None:
            run.count_damaged()
        else:
            self.damaged += 1

    def pop_finished(self, now: float, *, end_all: bool = False) -> Iterator[FinishedStep | FinishedRun]:
        """Yield the steps and runs that have ended since the last call; `end_all` ends every run."""
        for run in list(self._runs.values()):
            silent_seconds = now - run.last_at
            finished = (
                end_all
                or (run.end_reported and silent_seconds >= STRAGGLING_SECONDS)
                or silent_seconds >= self._idle_seconds
            )
            yield from self._pop_steps(run, now, end_all=finished)
            if finished:
                yield self._finish(run)

    def _pop_steps(self, run: RunCount, now: float, *, end_all: bool) -> Iterator[FinishedStep]:
        steps = results(run)
        while (shown := self._shown.get(run.number, 0)) < len(steps):
            step = run.steps.get(shown + 1)
            ended = step is not None and step.ended_at is not None and now - step.ended_at >= STRAGGLING_SECONDS
            if not (end_all or ended or shown + 1 < run.latest_step):
                return
            self._shown[run.number] = shown + 1
            yield FinishedStep(run.number, steps[shown])

    def _finish(self, run: RunCount) -> FinishedRun:
        steps = tuple(results(run))
        finished = FinishedRun(
            run.number,
            run.steps_asked,
            run.payload_bytes,
            steps,
            advice(
                list(steps),
                payload_bytes=run.payload_bytes,
                margin=self._margin,
                accepted_loss=self._accepted_loss,
                is_cut_off=not run.end_reported and len(steps) < run.steps_asked,
            ),
            run.end_reported,
            run.header_bytes,
            run.packet_info,
        )
        run.close()
        del self._runs[run.number]
        self._shown.pop(run.number, None)
        self._latest = None if self._latest is run else self._latest
        self._ended[run.number] = None
        self.finished.append(finished)
        while len(self.finished) > MAX_FINISHED_RUNS:
            del self.finished[0]
            self._ended.pop(next(iter(self._ended)))
        return finished

    def as_json(self) -> dict[str, Any]:
        """Return the counts of datagrams that belong to no run."""
        return {"foreign": self.foreign, "late": self.late, "damaged": self.damaged, "dropped": self.dropped}
