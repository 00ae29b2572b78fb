"""Owns the runs that are being received, and when they are over; must not know sockets nor how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_sender.link_test.advice import Advice, StepResult, advice, results
from gapless_sender.link_test.counting import Arrival, RunCount
from gapless_sender.link_test.form import Damaged, read

if TYPE_CHECKING:
    from collections.abc import Iterator

STRAGGLING_SECONDS = 0.5
"""So long after its end was told, probes of a step or a run may still arrive."""
MOST_RUNS_AT_ONCE = 4
MOST_FINISHED = 100
"""Runs that a report keeps; the oldest go first."""


class FinishedStep(NamedTuple):
    """A step that is over, as far as one can tell; a straggler may change its counts once more."""

    run: int
    result: StepResult


class FinishedRun(NamedTuple):
    """A run that is over."""

    run: int
    steps_asked: int
    payload_bytes: int
    results: tuple[StepResult, ...]
    advice: Advice
    was_told: bool
    """Whether its end was told, or it just fell silent."""


class Reception:
    """Counts what arrives."""

    def __init__(self, *, margin: float, accepted_loss: float, idle_seconds: float) -> None:
        """`margin` and `accepted_loss` are for the advice; a run is over when it is silent for `idle_seconds`."""
        self._margin = margin
        self._accepted_loss = accepted_loss
        self._idle_seconds = idle_seconds
        self._runs: dict[int, RunCount] = {}
        self._told: dict[int, int] = {}
        self._latest: RunCount | None = None
        self._over: dict[int, None] = {}
        self.finished: list[FinishedRun] = []
        self.foreign = 0
        """Datagrams that are no probes, or probes of more runs than one can follow."""
        self.late = 0
        """Probes of runs that were over."""
        self.damaged = 0
        """Probes with wrong bytes of which nobody can say to which run they belong."""
        self.dropped = 0
        """By the kernel, while no run was under way."""
        self.last_probe_at: float | None = None

    @property
    def under_way(self) -> int:
        """How many runs are under way."""
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
        if number in self._over:
            self.late += 1
            return
        run = self._runs.get(number)
        if run is None:
            if len(self._runs) >= MOST_RUNS_AT_ONCE:
                self.foreign += 1
                return
            run = self._runs[number] = RunCount(found, arrival.at)
        if not run.belongs(found.step):
            self.foreign += 1
            return
        run.take(found, arrival)
        self._latest = run
        self.last_probe_at = arrival.at

    def drop(self, count: int) -> None:
        """The kernel dropped `count` datagrams for our socket."""
        if self._latest is not None:
            self._latest.dropped(count)
        else:
            self.dropped += count

    def _damaged(self, found: Damaged) -> None:
        run = self._runs.get(found.run)
        if run is not None:
            run.damaged()
        else:
            self.damaged += 1

    def over(self, now: float, *, at_once: bool = False) -> Iterator[FinishedStep | FinishedRun]:
        """Everything that is over now and was not told before; `at_once` ends every run."""
        for run in list(self._runs.values()):
            silent_seconds = now - run.last_at
            finished = (
                at_once
                or (run.told_end and silent_seconds >= STRAGGLING_SECONDS)
                or silent_seconds >= self._idle_seconds
            )
            yield from self._steps_over(run, now, all_of_them=finished)
            if finished:
                yield self._finish(run)

    def _steps_over(self, run: RunCount, now: float, *, all_of_them: bool) -> Iterator[FinishedStep]:
        found = results(run)
        while (told := self._told.get(run.number, 0)) < len(found):
            step = run.steps.get(told + 1)
            ended = step is not None and step.ended_at is not None and now - step.ended_at >= STRAGGLING_SECONDS
            if not (all_of_them or ended or told + 1 < run.latest_step):
                return
            self._told[run.number] = told + 1
            yield FinishedStep(run.number, found[told])

    def _finish(self, run: RunCount) -> FinishedRun:
        found = tuple(results(run))
        made = FinishedRun(
            run.number,
            run.steps_asked,
            run.payload_bytes,
            found,
            advice(
                list(found),
                payload_bytes=run.payload_bytes,
                margin=self._margin,
                accepted_loss=self._accepted_loss,
                is_cut_off=not run.told_end and len(found) < run.steps_asked,
            ),
            run.told_end,
        )
        run.close()
        del self._runs[run.number]
        self._told.pop(run.number, None)
        self._latest = None if self._latest is run else self._latest
        self._over[run.number] = None
        self.finished.append(made)
        while len(self.finished) > MOST_FINISHED:
            del self.finished[0]
            self._over.pop(next(iter(self._over)))
        return made

    def as_json(self) -> dict[str, Any]:
        """What the datagrams were that count for no run."""
        return {"foreign": self.foreign, "late": self.late, "damaged": self.damaged, "dropped": self.dropped}
