"""Owns the decisions about the workers of a parallel resend: when they begin, pause for a new key, and end; pure.

Must not know pipes, processes, signals, keys or clocks: what happens comes in as events, what is to be done goes out as
commands. Every event has an answer in every phase, and every phase leads to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import StoppedError, error_outcome
from gapless_api.base.exit_codes import ExitCode

if TYPE_CHECKING:
    from gapless_api.base.errors import GaplessError

_WORST_FIRST = (
    ExitCode.BAD_CONFIGURATION,
    ExitCode.LINK_FAILED,
    ExitCode.SOURCE_UNREACHABLE,
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
)


class Phase(StrEnum):
    """What all workers together are at."""

    STARTING = "starting"
    """Some have not yet reached Kafka and planned their partitions; nothing has been sent, no key either."""
    ANNOUNCING = "announcing"
    """The receiver is given a key; nobody sends events."""
    RUNNING = "running"
    PAUSING = "pausing"
    """A new key is due; some have not yet finished their batch."""
    STOPPING = "stopping"
    ENDED = "ended"


class Life(StrEnum):
    """What one worker is at."""

    STARTING = "starting"
    READY = "ready"
    SENDING = "sending"
    PAUSING = "pausing"
    PAUSED = "paused"
    KILLED = "killed"
    """By us; its end is not yet known."""
    FINISHED = "finished"
    """It has told its last account."""
    DEAD = "dead"
    """It ended before that."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of this worker."""
        return self in {Life.FINISHED, Life.DEAD}


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has reached Kafka and planned its partitions."""

    worker: int
    has_work: bool


@dataclass(frozen=True, slots=True)
class WorkerPaused:
    """A worker sends nothing until it is told to go on."""

    worker: int


@dataclass(frozen=True, slots=True)
class WorkerFinished:
    """A worker has told its last account, and what ended its work early, if anything did."""

    worker: int
    problem: GaplessError | None = None


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker ended, or its pipe broke, before it had told its last account."""

    worker: int
    status: int | None
    """Its exit code, or minus the number of the signal; ``None`` if only the pipe is known to have ended."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Something failed on the supervisor's own side, such as the announcement of a key."""

    problem: GaplessError


class Event(StrEnum):
    """What happens to all workers together."""

    KEY_DUE = "key due"
    """The key is too old, or a worker has encrypted as much as its part of the key allows."""
    KEY_ANNOUNCED = "key announced"
    """The receiver has the new key."""
    STOP_ASKED = "stop asked"
    """A signal; the second one means at once."""
    PATIENCE_OVER = "patience over"
    """The workers were asked to stop long enough ago."""


AnyEvent = WorkerReady | WorkerPaused | WorkerFinished | WorkerDied | Failed | Event


class Action(StrEnum):
    """What is to be done."""

    GREET = "greet"
    """Tell the receiver that a resend begins."""
    ANNOUNCE = "announce"
    """Make a new key and give it to the receiver; answered by KEY_ANNOUNCED."""
    GO = "go"
    """Let a worker send, with the present key."""
    PAUSE = "pause"
    """Ask a worker to finish its batch and wait for the next key."""
    TERMINATE = "terminate"
    """Ask a worker to end after its batch."""
    KILL = "kill"


class Command(NamedTuple):
    """One thing to do, for one worker or (``None``) for all together."""

    action: Action
    worker: int | None = None


class Supervisor:
    """The state of all workers. Give `handle` every event, and do what it returns, in order."""

    def __init__(self, workers: int, *, encrypts: bool) -> None:
        """`encrypts` says whether workers need a key before they may send."""
        self.phase = Phase.STARTING
        self.lives = [Life.STARTING] * workers
        self.problems: list[GaplessError] = []
        self.greeted = False
        """Whether the receiver was told that a resend begins, and must be told that it ends."""
        self._encrypts = encrypts
        self._has_work = False
        self._stop_asked = False

    @property
    def is_complete(self) -> bool:
        """Whether every worker has done all of its work."""
        return not self.problems and all(life is Life.FINISHED for life in self.lives)

    def outcome(self, stop: StoppedError | None) -> GaplessError | None:
        """What ended the work early, the worst of all; ``None`` when it is complete.

        Args:
            stop: what the signal meant, if one came: workers were then stopped by us, whatever signal they saw.
        """
        if self.is_complete:
            return None
        problems = [stop if stop and isinstance(problem, StoppedError) else problem for problem in self.problems]
        if stop is not None:
            problems.append(stop)
        return min(problems, key=_rank)

    def handle(self, event: AnyEvent) -> list[Command]:
        """Take in what happened and return what is to be done about it."""
        if self.phase is Phase.ENDED:
            return []
        commands = self._react(event)
        if all(life.is_over for life in self.lives):
            self.phase = Phase.ENDED
        return commands

    def _react(self, event: AnyEvent) -> list[Command]:
        commands: list[Command] = []
        match event:
            case WorkerReady(worker, has_work) if self.lives[worker] is Life.STARTING:
                self.lives[worker] = Life.READY
                self._has_work |= has_work
                commands = self._go_on()
            case WorkerPaused(worker) if self.lives[worker] is Life.PAUSING:
                self.lives[worker] = Life.PAUSED
                commands = self._go_on()
            case WorkerFinished(worker, problem) if not self.lives[worker].is_over:
                self.lives[worker] = Life.FINISHED
                commands = self._go_on() if problem is None else self._fail(problem)
            case WorkerDied(worker, status) if not self.lives[worker].is_over:
                commands = self._bury(worker, status)
            case Failed(problem):
                commands = self._fail(problem)
            case Event():
                commands = self._react_together(event)
        return commands

    def _react_together(self, event: Event) -> list[Command]:
        match event:
            case Event.KEY_DUE if self.phase is Phase.RUNNING and self._encrypts:
                return self._pause()
            case Event.KEY_ANNOUNCED if self.phase is Phase.ANNOUNCING:
                return self._let_send()
            case Event.STOP_ASKED:
                again, self._stop_asked = self._stop_asked, True
                return self._kill() if again else self._stop()
            case Event.PATIENCE_OVER if self.phase is Phase.STOPPING:
                return self._kill()
        return []

    def _go_on(self) -> list[Command]:
        """Begin, or give the receiver the next key, once no worker is waited for any more."""
        if self.phase is Phase.STARTING and Life.STARTING not in self.lives and Life.READY in self.lives:
            if not self._has_work:
                return self._let_send()
            self.greeted = True
            return [Command(Action.GREET), *(self._announce() if self._encrypts else self._let_send())]
        if self.phase is Phase.PAUSING and Life.PAUSING not in self.lives and Life.PAUSED in self.lives:
            return self._announce()
        return []

    def _announce(self) -> list[Command]:
        self.phase = Phase.ANNOUNCING
        return [Command(Action.ANNOUNCE)]

    def _let_send(self) -> list[Command]:
        self.phase = Phase.RUNNING
        return self._each((Life.READY, Life.PAUSED), Life.SENDING, Action.GO)

    def _pause(self) -> list[Command]:
        commands = self._each((Life.SENDING,), Life.PAUSING, Action.PAUSE)
        self.phase = Phase.PAUSING
        return commands

    def _bury(self, worker: int, status: int | None) -> list[Command]:
        by_us = self.lives[worker] is Life.KILLED
        self.lives[worker] = Life.DEAD
        commands = [Command(Action.KILL, worker)] if status is None else []
        if not by_us:
            how = "its pipe broke" if status is None else f"exit code {status}" if status >= 0 else f"signal {-status}"
            commands += self._fail(
                StoppedError(
                    f"Worker process {worker} ended unexpectedly ({how}); start again, with the checkpoint if there is "
                    f"one.",
                    by_terminal=False,
                )
            )
        return commands

    def _fail(self, problem: GaplessError) -> list[Command]:
        self.problems.append(problem)
        return self._stop()

    def _stop(self) -> list[Command]:
        if self.phase is Phase.STOPPING:
            return []
        self.phase = Phase.STOPPING
        return [Command(Action.TERMINATE, worker) for worker, life in enumerate(self.lives) if not life.is_over]

    def _kill(self) -> list[Command]:
        self.phase = Phase.STOPPING
        alive = tuple(life for life in Life if not life.is_over and life is not Life.KILLED)
        return self._each(alive, Life.KILLED, Action.KILL)

    def _each(self, those: tuple[Life, ...], become: Life, action: Action) -> list[Command]:
        commands = []
        for worker, life in enumerate(self.lives):
            if life in those:
                self.lives[worker] = become
                commands.append(Command(action, worker))
        return commands


def _rank(problem: GaplessError) -> int:
    code = error_outcome(problem).exit_code
    return _WORST_FIRST.index(code) if code in _WORST_FIRST else 0
