"""Temporary folders that the next run removes if their owner was killed. Must not know what is in them."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

_PREFIX = "gapless-kafka-"
_LOCK = "owner.lock"


class OwnedFolder:
    """A temporary folder with a lock file that its owner holds; a folder whose lock is free has no owner any more."""

    def __init__(self) -> None:
        _remove_ownerless()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Locked before it gets its final name, so that no other run sees the lock free while the owner lives.
        unnamed = self.path / ".lock"
        self._lock = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_ownerless() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # in use, or removed by another run
