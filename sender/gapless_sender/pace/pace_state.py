"""Owns the memory behind a pace: when the next events and bits are due, for one process or for many of one machine.

Must not know how a pace makes use of it, nor what is sent. Memory that is shared has a lock of the kernel's, so a
process that is killed while it holds the lock loses it and blocks nobody.
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
"""Doubles: the due times of events and bits and the two of catching up; the rates of events and bits."""
_DOUBLE_BYTES = 8

_MAGIC = b"GAPLBUD1"
_BOOT_ID_BYTES = 16
_HEADER_BYTES = 32
_FILE_BYTES = _HEADER_BYTES + _DUE_TIMES * _DOUBLE_BYTES
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class PaceState:
    """The due times and rates behind a `Pace`.

    There are three kinds. One of this process alone (`PaceState()`). One in anonymous memory (`shared`): a child made
    by fork has it as it is; the rates are in it, so that they can be changed for all, and it is gone with the last
    process that has it. And one in a file (`in_file`) for programs that know nothing of each other but the file's
    name: there the file holds the due times alone, each program, with its children made by fork, brings its own rates,
    and due times of before a restart of the machine do not count, because its clock began anew.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """A budget of this process alone, or the one in the memory file `descriptor`; see `shared`."""
        self._descriptor = descriptor
        self._memory = None if descriptor is None else mmap.mmap(descriptor, mmap.PAGESIZE)
        room = bytearray(_DOUBLE_BYTES * (_DUE_TIMES + _RATES)) if self._memory is None else self._memory
        self._place(memoryview(room), 0)
        self.rates_are_common = True
        """Whether all who share the budget share its rates too."""

    def _place(self, room: memoryview[Any], start: int, rates: memoryview[Any] | None = None) -> None:
        end = start + _DUE_TIMES * _DOUBLE_BYTES
        rates = room[end : end + _RATES * _DOUBLE_BYTES] if rates is None else rates
        self.dues: memoryview[float] = room[start:end].cast("B").cast("d")
        self.rates: memoryview[float] = rates.cast("B").cast("d")

    @classmethod
    def shared(cls) -> PaceState:
        """Make a budget that other processes can share."""
        descriptor = os.memfd_create("gapless-budget")
        os.ftruncate(descriptor, mmap.PAGESIZE)
        return cls(descriptor)

    @classmethod
    def in_file(cls, path: Path) -> PaceState:
        """Take the budget in the file `path`, which is made if it is not there.

        Whoever comes first makes its content under the file's lock, so nobody meets half of it. The file must lie on a
        volume of this machine; only processes of one machine have one clock.

        Raises:
            ConfigurationError: the file is something else.
            LocalStorageError: it cannot be made, locked or mapped there.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
            try:
                _make_ready(path, descriptor)
                memory = mmap.mmap(descriptor, _FILE_BYTES)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise LocalStorageError(
                f"The budget file {path} cannot be used ({error.strerror}); give a file in a folder that all senders "
                f"of this machine share and may write to."
            ) from error
        budget = cls()
        budget._descriptor, budget._memory = descriptor, memory
        # Children made by fork are the same program, so a rate that is changed in one is changed in all.
        rates = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[: _RATES * _DOUBLE_BYTES]
        budget._place(memoryview(memory), _HEADER_BYTES, rates)
        budget.rates_are_common = False
        return budget

    def fileno(self) -> int:
        """The descriptor to hand to another process.

        Raises:
            ValueError: the budget is of this process alone.
        """
        if self._descriptor is None:
            raise ValueError("this budget is not shared")
        return self._descriptor

    def lock(self) -> None:
        """Keep the other processes from the due times until `unlock`."""
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def unlock(self) -> None:
        """Let the others go on."""
        if self._descriptor is not None:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the budget; the other processes keep it."""
        self.dues.release()
        self.rates.release()
        if self._memory is not None:
            self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)


def _make_ready(path: Path, descriptor: int) -> None:
    """Make sure that the file holds due times of this boot of the machine. Raises ConfigurationError."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    try:
        found = os.pread(descriptor, _FILE_BYTES + 1, 0)
        magic, boot = found[: len(_MAGIC)], _boot_id()
        # Zeros: somebody was killed who was about to make it.
        unfinished = not any(magic)
        if len(found) > _FILE_BYTES or not (unfinished or magic == _MAGIC):
            raise ConfigurationError(f"The budget file {path} is something else; give another name, or delete it.")
        if magic == _MAGIC and len(found) == _FILE_BYTES and found[len(_MAGIC) :].startswith(boot):
            return
        os.pwrite(descriptor, bytes(len(_MAGIC)), 0)
        os.pwrite(descriptor, boot.ljust(_FILE_BYTES - len(_MAGIC), b"\0"), len(_MAGIC))
        os.pwrite(descriptor, _MAGIC, 0)
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)


def _boot_id() -> bytes:
    """What tells this run of the machine from the one before."""
    try:
        return uuid.UUID(_BOOT_ID.read_text(encoding="ascii").strip()).bytes
    except (OSError, ValueError):
        return bytes(_BOOT_ID_BYTES)
