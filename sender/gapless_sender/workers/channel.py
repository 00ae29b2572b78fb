"""The messages between the supervisor and its workers, and their pipes.

Must not know what follows from a message. Pipes deliver complete messages only: a killed process's partial one is lost.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Self

from gapless_api.base import errors
from gapless_api.base.errors import ERROR_OUTCOMES, GaplessError, StoppedError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_sender.replay.report import Traffic

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_sender.replay.account import BatchResult


_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16
_MAX_READ_BYTES = 1 << 20
"""In one call, so that one worker does not starve the others."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has connected to Kafka and planned its partitions; it sends nothing before `Go`."""

    keys: tuple[TopicPartition, ...]
    """Its partitions."""
    bounds: dict[TopicPartition, tuple[int, int]]
    topic_ids: dict[str, str]


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch was sent."""

    key: TopicPartition
    result: BatchResult
    traffic: Traffic
    """Of the worker, since it started."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A worker sends nothing until the next `Go`."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A worker has encrypted its share of the messages that the key allows."""


@dataclass(frozen=True, slots=True)
class WorkerError:
    """A `GaplessError` in a form that can be pickled."""

    name: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, error: GaplessError) -> Self:
        """Take what the supervisor needs from `error`."""
        # Other packages have subclasses of these.
        kind = next(kind for kind in type(error).__mro__ if kind in ERROR_OUTCOMES)
        return cls(kind.__name__, str(error), int(error_outcome(error).exit_code))

    @property
    def error(self) -> GaplessError:
        """The error for the supervisor."""
        if self.name == StoppedError.__name__:
            return StoppedError(self.message, by_terminal=self.exit_code == ExitCode.INTERRUPTED)
        error: GaplessError = getattr(errors, self.name)(self.message)
        return error


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker's last message."""

    problem: WorkerError | None = None
    traffic: Traffic = field(default_factory=Traffic)
    damaged: tuple[DamagedObject, ...] = ()
    """Objects of the archive that it could not read."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Finish the batch, send `Paused`, and wait for `Go`."""


@dataclass(frozen=True, slots=True)
class Go:
    """Send events, from now on with this key if there is one."""

    session_key: bytes | None = None


class PipeWriter:
    """The write end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Any) -> None:
        """Send `message`, and wait while the pipe is full. Raises OSError when the read end is closed."""
        content = pickle.dumps(message)
        unsent = memoryview(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        while unsent:
            unsent = unsent[os.write(self._descriptor, unsent) :]

    def close(self) -> None:
        """Close this end."""
        os.close(self._descriptor)


class PipeReader:
    """The read end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.at_end = False
        """Whether the write end is closed and everything was read."""

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._descriptor

    def receive(self) -> list[Any]:
        """Return the messages that have arrived completely; never waits."""
        limit = len(self._buffer) + _MAX_READ_BYTES
        while not self.at_end and len(self._buffer) < limit:
            try:
                content = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            self._buffer += content
            self.at_end = not content
        return self._complete_messages()

    def _complete_messages(self) -> list[Any]:
        messages, start = [], 0
        while len(self._buffer) - start >= _LENGTH_BYTES:
            end = start + _LENGTH_BYTES + int.from_bytes(self._buffer[start : start + _LENGTH_BYTES], "big")
            if len(self._buffer) < end:
                break
            # The other end of the pipe is a fork of this program.
            messages.append(pickle.loads(self._buffer[start + _LENGTH_BYTES : end]))  # noqa: S301
            start = end
        del self._buffer[:start]
        return messages

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for a message."""
        wait([self._descriptor], seconds)

    def close(self) -> None:
        """Close this end."""
        os.close(self._descriptor)


def pipe() -> tuple[PipeReader, PipeWriter]:
    """Create a pipe."""
    reading, writing = os.pipe()
    return PipeReader(reading), PipeWriter(writing)
