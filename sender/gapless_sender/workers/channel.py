"""Owns what the supervisor and its workers tell each other, and how it gets through their pipes.

Must not know what follows from it. A pipe carries whole messages: what a killed process had written of one is nothing.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from gapless_api.base import errors
from gapless_api.base.errors import ERROR_OUTCOMES, GaplessError, StoppedError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_sender.replay.report import Traffic

if TYPE_CHECKING:
    from typing import Self

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_sender.replay.account import BatchResult


_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16
_MOST_READ_BYTES = 1 << 20
"""In one call, so that one worker does not keep the supervisor from the others."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has reached Kafka and planned its partitions; it sends nothing before it is told to go."""

    keys: tuple[TopicPartition, ...]
    """Its partitions."""
    bounds: dict[TopicPartition, tuple[int, int]]
    topic_ids: dict[str, str]


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch is on the link."""

    key: TopicPartition
    result: BatchResult
    traffic: Traffic
    """Of the worker, since it began."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A worker sends nothing until it is told to go on."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A worker has encrypted as much as its part of the key allows."""


@dataclass(frozen=True, slots=True)
class WorkerError:
    """A `GaplessError` as it goes through a pipe; not every one can be pickled."""

    name: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, error: GaplessError) -> Self:
        """Take what the supervisor needs to know of `error`."""
        kind = next(
            kind for kind in type(error).__mro__ if kind in ERROR_OUTCOMES
        )  # other packages have classes below these
        return cls(kind.__name__, str(error), int(error_outcome(error).exit_code))

    @property
    def error(self) -> GaplessError:
        """The error, as far as the supervisor needs to know it."""
        if self.name == StoppedError.__name__:
            return StoppedError(self.message, by_terminal=self.exit_code == ExitCode.INTERRUPTED)
        found: GaplessError = getattr(errors, self.name)(self.message)
        return found


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker's last word."""

    problem: WorkerError | None = None
    traffic: Traffic = field(default_factory=Traffic)
    damaged: tuple[DamagedObject, ...] = ()
    """Objects of the archive that it could not read."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Finish the batch, say `Paused`, and wait."""


@dataclass(frozen=True, slots=True)
class Go:
    """Send, from now on with this key if there is one."""

    session_key: bytes | None = None


class Outlet:
    """The end of a pipe that messages go into."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Any) -> None:
        """Send `message`, and wait while the pipe is full. Raises OSError when nobody can ever read it."""
        content = pickle.dumps(message)
        left = memoryview(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def close(self) -> None:
        """Let the pipe go."""
        os.close(self._descriptor)


class Inlet:
    """The end of a pipe that messages come out of."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._read = bytearray()
        self.has_ended = False
        """Whether nothing more can come."""

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._descriptor

    def receive(self) -> list[Any]:
        """The messages that have come whole; never waits."""
        most = len(self._read) + _MOST_READ_BYTES
        while not self.has_ended and len(self._read) < most:
            try:
                content = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            self._read += content
            self.has_ended = not content
        return self._whole_messages()

    def _whole_messages(self) -> list[Any]:
        messages, start = [], 0
        while len(self._read) - start >= _LENGTH_BYTES:
            end = start + _LENGTH_BYTES + int.from_bytes(self._read[start : start + _LENGTH_BYTES], "big")
            if len(self._read) < end:
                break
            # What comes through the pipe was written by a fork of this very program.
            messages.append(pickle.loads(self._read[start + _LENGTH_BYTES : end]))  # noqa: S301
            start = end
        del self._read[:start]
        return messages

    def wait(self, seconds: float) -> None:
        """Wait for something to come, at most so long."""
        wait([self._descriptor], seconds)

    def close(self) -> None:
        """Let the pipe go."""
        os.close(self._descriptor)


def pipe() -> tuple[Inlet, Outlet]:
    """Make a pipe."""
    reading, writing = os.pipe()
    return Inlet(reading), Outlet(writing)
