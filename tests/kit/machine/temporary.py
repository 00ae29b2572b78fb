"""Owns temporary folders that the next run removes if their maker was killed. Must not know what is in them."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

_PREFIX = "gapless-kafka-"
_LOCK = "owner.lock"


class OwnedFolder:
    """A temporary folder whose owner holds a lock in it; a folder whose lock is free belongs to nobody any more."""

    def __init__(self) -> None:
        _remove_ownerless()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Locked before it gets its name, so that nobody ever sees it free while the owner lives.
        unnamed = self.path / ".lock"
        self._lock = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_ownerless() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # in use, or just removed by another run
