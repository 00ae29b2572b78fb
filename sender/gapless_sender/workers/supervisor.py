"""The decisions about the workers of a parallel resend: when they start, pause for a new key, and end; pure.

Must not know pipes, processes, signals, keys or clocks: input are events, output are commands. Every event is handled
in every phase, and every phase leads to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gapless_api.base.errors import GaplessError, StoppedError, error_outcome
from gapless_api.base.exit_codes import ExitCode

_WORST_FIRST = (
    ExitCode.BAD_CONFIGURATION,
    ExitCode.LINK_FAILED,
    ExitCode.SOURCE_UNREACHABLE,
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
)


class Phase(StrEnum):
    """The state of all workers together."""

    STARTING = "starting"
    """Some have not yet planned their partitions; nothing has been sent, not even a key."""
    ANNOUNCING = "announcing"
    """A key is sent to the receiver; no worker sends events."""
    RUNNING = "running"
    PAUSING = "pausing"
    """A new key is due; some workers have not yet finished their batch."""
    STOPPING = "stopping"
    ENDED = "ended"


class WorkerState(StrEnum):
    """The state of one worker."""

    STARTING = "starting"
    READY = "ready"
    SENDING = "sending"
    PAUSING = "pausing"
    PAUSED = "paused"
    KILLED = "killed"
    """By the supervisor; it has not ended yet."""
    FINISHED = "finished"
    """It has sent its final account."""
    DEAD = "dead"
    """It ended without one."""

    @property
    def has_ended(self) -> bool:
        """Whether the worker sends no more messages."""
        return self in {WorkerState.FINISHED, WorkerState.DEAD}


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has connected to Kafka and planned its partitions."""

    worker: int
    has_work: bool


@dataclass(frozen=True, slots=True)
class WorkerPaused:
    """A worker sends nothing until the next `Action.GO`."""

    worker: int


@dataclass(frozen=True, slots=True)
class WorkerFinished:
    """A worker has sent its final account, and the error that ended its work early, if any."""

    worker: int
    problem: GaplessError | None = None


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A worker ended, or its pipe broke, before it sent its final account."""

    worker: int
    status: int | None
    """Its exit code, or minus the number of the signal; ``None`` if only its pipe is closed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Something failed on the supervisor's own side, such as the announcement of a key."""

    problem: GaplessError


class Event(StrEnum):
    """Something that concerns all workers."""

    KEY_DUE = "key due"
    """The key is too old, or a worker has encrypted its share of the messages that the key allows."""
    KEY_ANNOUNCED = "key announced"
    """The receiver has the new key."""
    STOP_REQUESTED = "stop requested"
    """A signal; the second one kills the workers."""
    GRACE_PERIOD_OVER = "grace period over"
    """The workers had their time to stop."""


AnyEvent = WorkerReady | WorkerPaused | WorkerFinished | WorkerDied | Failed | Event


class Action(StrEnum):
    """What to do."""

    ANNOUNCE_START = "announce start"
    """Send the receiver the status of a resend that starts."""
    ANNOUNCE_KEY = "announce key"
    """Create a new key and send it to the receiver; KEY_ANNOUNCED follows."""
    GO = "go"
    """Let a worker send events, with the current key."""
    PAUSE = "pause"
    """Request a worker to finish its batch and wait for the next key."""
    TERMINATE = "terminate"
    """Request a worker to end after its batch."""
    KILL = "kill"


class Command(NamedTuple):
    """An action for one worker or (``None``) for the supervisor's process."""

    action: Action
    worker: int | None = None


class Supervisor:
    """The state of all workers. Pass every event to `handle`, and execute what it returns, in order."""

    def __init__(self, workers: int, *, encrypts: bool) -> None:
        """`encrypts` means that workers need a key before they may send events."""
        self.phase = Phase.STARTING
        self.states = [WorkerState.STARTING] * workers
        self.problems: list[GaplessError] = []
        self.start_announced = False
        """Whether the receiver got the status of the start, and must get that of the end."""
        self._encrypts = encrypts
        self._has_work = False
        self._stop_requested = False

    @property
    def is_complete(self) -> bool:
        """Whether every worker has done all of its work."""
        return not self.problems and all(state is WorkerState.FINISHED for state in self.states)

    def outcome(self, stop: StoppedError | None) -> GaplessError | None:
        """Return the worst error that ended the work early; ``None`` when it is complete.

        Args:
            stop: the supervisor's own error after a signal; it replaces those of workers, which it stopped.
        """
        if self.is_complete:
            return None
        problems = [stop if stop and isinstance(problem, StoppedError) else problem for problem in self.problems]
        if stop is not None:
            problems.append(stop)
        return min(problems, key=_rank)

    def handle(self, event: AnyEvent) -> list[Command]:
        """Handle `event` and return what to do about it."""
        if self.phase is Phase.ENDED:
            return []
        commands = self._react(event)
        if all(state.has_ended for state in self.states):
            self.phase = Phase.ENDED
        return commands

    def _react(self, event: AnyEvent) -> list[Command]:
        commands: list[Command] = []
        match event:
            case WorkerReady(worker, has_work) if self.states[worker] is WorkerState.STARTING:
                self.states[worker] = WorkerState.READY
                self._has_work |= has_work
                commands = self._advance()
            case WorkerPaused(worker) if self.states[worker] is WorkerState.PAUSING:
                self.states[worker] = WorkerState.PAUSED
                commands = self._advance()
            case WorkerFinished(worker, problem) if not self.states[worker].has_ended:
                self.states[worker] = WorkerState.FINISHED
                commands = self._advance() if problem is None else self._fail(problem)
            case WorkerDied(worker, status) if not self.states[worker].has_ended:
                commands = self._handle_death(worker, status)
            case Failed(problem):
                commands = self._fail(problem)
            case Event():
                commands = self._react_to_common(event)
        return commands

    def _react_to_common(self, event: Event) -> list[Command]:
        match event:
            case Event.KEY_DUE if self.phase is Phase.RUNNING and self._encrypts:
                return self._pause()
            case Event.KEY_ANNOUNCED if self.phase is Phase.ANNOUNCING:
                return self._start_sending()
            case Event.STOP_REQUESTED:
                is_second, self._stop_requested = self._stop_requested, True
                return self._kill() if is_second else self._stop()
            case Event.GRACE_PERIOD_OVER if self.phase is Phase.STOPPING:
                return self._kill()
        return []

    def _advance(self) -> list[Command]:
        """Start sending, or announce the next key, once all workers are ready for it."""
        states = self.states
        if self.phase is Phase.STARTING and WorkerState.STARTING not in states and WorkerState.READY in states:
            if not self._has_work:
                return self._start_sending()
            self.start_announced = True
            return [
                Command(Action.ANNOUNCE_START),
                *(self._announce_key() if self._encrypts else self._start_sending()),
            ]
        if self.phase is Phase.PAUSING and WorkerState.PAUSING not in states and WorkerState.PAUSED in states:
            return self._announce_key()
        return []

    def _announce_key(self) -> list[Command]:
        self.phase = Phase.ANNOUNCING
        return [Command(Action.ANNOUNCE_KEY)]

    def _start_sending(self) -> list[Command]:
        self.phase = Phase.RUNNING
        return self._transition((WorkerState.READY, WorkerState.PAUSED), WorkerState.SENDING, Action.GO)

    def _pause(self) -> list[Command]:
        self.phase = Phase.PAUSING
        return self._transition((WorkerState.SENDING,), WorkerState.PAUSING, Action.PAUSE)

    def _handle_death(self, worker: int, status: int | None) -> list[Command]:
        was_killed = self.states[worker] is WorkerState.KILLED
        self.states[worker] = WorkerState.DEAD
        commands = [Command(Action.KILL, worker)] if status is None else []
        if not was_killed:
            how = "its pipe broke" if status is None else f"exit code {status}" if status >= 0 else f"signal {-status}"
            commands += self._fail(
                StoppedError(
                    f"Worker process {worker} ended unexpectedly ({how}); start again, with the same checkpoint if you "
                    f"use one.",
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
        return [Command(Action.TERMINATE, worker) for worker, state in enumerate(self.states) if not state.has_ended]

    def _kill(self) -> list[Command]:
        self.phase = Phase.STOPPING
        alive = tuple(state for state in WorkerState if not state.has_ended and state is not WorkerState.KILLED)
        return self._transition(alive, WorkerState.KILLED, Action.KILL)

    def _transition(self, before: tuple[WorkerState, ...], after: WorkerState, action: Action) -> list[Command]:
        """Move all workers from a state in `before` to `after`, and return `action` for each."""
        commands = []
        for worker, state in enumerate(self.states):
            if state in before:
                self.states[worker] = after
                commands.append(Command(action, worker))
        return commands


def _rank(problem: GaplessError) -> int:
    code = error_outcome(problem).exit_code
    return _WORST_FIRST.index(code) if code in _WORST_FIRST else 0
