"""The state of a pace: when the next events and bits are due, for one process or for many on one machine.

Must not know how a pace uses it, nor what is sent. Shared state has a kernel lock: a process that is killed while it
has the lock releases it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import uuid
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError, LocalStorageError

_DUE_TIMES, _RATES = 4, 2
"""Doubles: the due times of events and bits, and of catching up for each; the rates of events and bits."""
_DOUBLE_BYTES = 8

_MAGIC = b"GAPLBUD1"
_BOOT_ID_BYTES = 16
_HEADER_BYTES = 32
_FILE_BYTES = _HEADER_BYTES + _DUE_TIMES * _DOUBLE_BYTES
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class PaceState:
    """The due times and rates behind a `Pace`.

    There are three kinds. `PaceState()` is for this process alone. `shared` is in anonymous memory that children
    inherit over a fork; its rates can be changed for all, and it ends with the last process. `in_file` is for
    independent programs that share a file: the file has the due times only, and each program, with its children, sets
    its own rates. Due times from before a restart of the machine do not count, because a restart resets the clock.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Create the state of this process, or map the one in the memory file `descriptor`; see `shared`."""
        self._descriptor = descriptor
        self._memory = None if descriptor is None else mmap.mmap(descriptor, mmap.PAGESIZE)
        memory = bytearray(_DOUBLE_BYTES * (_DUE_TIMES + _RATES)) if self._memory is None else self._memory
        self._map(memoryview(memory), 0)
        self.shares_rates = True
        """Whether all who share the state share its rates too."""

    def _map(self, memory: memoryview[Any], start: int, rates: memoryview[Any] | None = None) -> None:
        end = start + _DUE_TIMES * _DOUBLE_BYTES
        rates = memory[end : end + _RATES * _DOUBLE_BYTES] if rates is None else rates
        self.dues: memoryview[float] = memory[start:end].cast("B").cast("d")
        self.rates: memoryview[float] = rates.cast("B").cast("d")

    @classmethod
    def shared(cls) -> PaceState:
        """Create a state that other processes can share."""
        descriptor = os.memfd_create("gapless-budget")
        os.ftruncate(descriptor, mmap.PAGESIZE)
        return cls(descriptor)

    @classmethod
    def in_file(cls, path: Path) -> PaceState:
        """Open the state in the file `path`, which is created if it is missing.

        The first program initialises it under the file's lock. The file must be on a volume of this machine: only
        processes of one machine share a clock.

        Raises:
            ConfigurationError: the file is not a budget file.
            LocalStorageError: it cannot be created, locked or mapped there.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
            try:
                _initialise(path, descriptor)
                memory = mmap.mmap(descriptor, _FILE_BYTES)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise LocalStorageError(
                f"The budget file {path} cannot be used ({error.strerror}); give a file in a folder that all senders "
                f"of this machine share and may write to."
            ) from error
        state = cls()
        state._descriptor, state._memory = descriptor, memory
        # Children of a fork are the same program, so a rate that one of them changes is changed for all.
        rates = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[: _RATES * _DOUBLE_BYTES]
        state._map(memoryview(memory), _HEADER_BYTES, rates)
        state.shares_rates = False
        return state

    def fileno(self) -> int:
        """Return the descriptor to pass to another process.

        Raises:
            ValueError: the state belongs to this process alone.
        """
        if self._descriptor is None:
            raise ValueError("this pace is not shared")
        return self._descriptor

    def lock(self) -> None:
        """Lock the due times until `unlock`."""
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def unlock(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the state; other processes keep it."""
        self.dues.release()
        self.rates.release()
        if self._memory is not None:
            self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)


def _initialise(path: Path, descriptor: int) -> None:
    """Initialise the file unless it has due times since the last boot of the machine. Raises ConfigurationError."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    try:
        content = os.pread(descriptor, _FILE_BYTES + 1, 0)
        magic, boot = content[: len(_MAGIC)], _boot_id()
        is_unfinished = not any(magic)  # the program that initialised it was killed
        if len(content) > _FILE_BYTES or not (is_unfinished or magic == _MAGIC):
            raise ConfigurationError(f"The file {path} is not a budget file; give another name, or delete it.")
        if magic == _MAGIC and len(content) == _FILE_BYTES and content[len(_MAGIC) :].startswith(boot):
            return
        os.pwrite(descriptor, bytes(len(_MAGIC)), 0)
        os.pwrite(descriptor, boot.ljust(_FILE_BYTES - len(_MAGIC), b"\0"), len(_MAGIC))
        os.pwrite(descriptor, _MAGIC, 0)
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)


def _boot_id() -> bytes:
    """Return an identifier of this boot of the machine."""
    try:
        return uuid.UUID(_BOOT_ID.read_text(encoding="ascii").strip()).bytes
    except (OSError, ValueError):
        return bytes(_BOOT_ID_BYTES)
