"""Owns how far a resend has come, on disk; must not know what is resent or how.

The file is JSON Lines. What it begins with is a whole state, written in one step (temporary file, sync, rename); each
further line is what some batches added, appended and synced beside the work, so that saving costs one small write
however much has happened before. A last line that a crash has cut is ignored: its batches are sent again, the one
repetition that is promised.

Beside the file stands a lock file, so that two senders cannot share one checkpoint, and while several processes work,
one file for each of them (``.shard-0`` …), which the next start takes in.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.files import atomic_writer
from gapless_sender.replay.background_append import BackgroundAppend
from gapless_sender.replay.saved_progress import Progress, line_of, read_lines, result_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.replay.account import BatchResult

SAVE_SECONDS = 0.5
SAVE_EVENTS = 16_000
"""So much, or what was sent in that time, may be sent twice after a crash of the program.

After one of the machine it may be twice that: while the disk takes one part, the next is sent.
"""
_REWRITE_BYTES = 16 * 1024 * 1024
"""A file that grew by so much is begun anew, so that a resend of days does not fill the disk."""


class Checkpoint:
    """One file that grows with each save."""

    def __init__(self, path: Path, identity: Mapping[str, Any], progress: Progress) -> None:
        """Begin the file with `progress`. Raises LocalStorageError when it cannot be written."""
        self.path = path
        self.progress = progress
        self._identity = identity
        self._handle = -1
        self._size = 0
        self._limit = 0
        self._noted: list[dict[str, Any]] = []
        self._noted_events = 0
        self._saved_at = 0.0
        self._saving = BackgroundAppend()
        self.rewrite()

    def rewrite(self) -> None:
        """Replace the file by one with the present state alone. Raises LocalStorageError."""
        size = 0
        with atomic_writer(self.path, what="checkpoint", private=True) as stream:
            for entry in self.progress.as_entries(self._identity):
                size += stream.write(line_of(entry))
        self.close()
        self._saving = BackgroundAppend()
        with self._storage_errors():
            self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = size
        self._limit = size * 2 + _REWRITE_BYTES
        self._reset_notes()

    def note(self, key: TopicPartition, result: BatchResult) -> None:
        """Add what a batch did, which `progress` has already. Raises LocalStorageError.

        It is saved once `SAVE_SECONDS` or `SAVE_EVENTS` are over, beside the work that goes on: a disk may take its
        time, and a pace that is to be even has none to spare. What an earlier save met is raised by the next batch.
        """
        self._noted.append(result_entry(key, result))
        self._noted_events += result.sent
        now = self._noted_events >= SAVE_EVENTS or self._saving.failed
        if now or (time.monotonic() - self._saved_at >= SAVE_SECONDS and not self._saving.under_way):
            self._append({"partitions": []}, wait=False)

    def save(self) -> None:
        """Make what was noted survive a crash. Raises LocalStorageError."""
        self._append({"partitions": []})

    def _reset_notes(self) -> None:
        self._noted.clear()
        self._noted_events = 0
        self._saved_at = time.monotonic()

    def append_bounds(self, key: TopicPartition, bounds: tuple[int, int]) -> None:
        """Fix the end of an open range. Raises LocalStorageError."""
        self.progress.bounds[key] = bounds
        self._append({"partitions": [{"topic": key[0], "partition": key[1], "bounds": list(bounds)}]})

    def append_topic_id(self, topic: str, found: str) -> None:
        """Note which topic it is that bears this name. Raises LocalStorageError."""
        self.progress.topic_ids[topic] = found
        self._append({"topicIds": {topic: found}, "partitions": []})

    def _append(self, entry: Mapping[str, Any], *, wait: bool = True) -> None:
        """Add a line with `entry` and what was noted, behind the one that is being written."""
        self._settle()
        partitions = [*self._noted, *entry["partitions"]]
        if partitions or len(entry) > 1 or self._saving.refused:
            self._saving.begin(self._handle, line_of({**entry, "partitions": partitions}), self._size)
        self._reset_notes()
        if wait:
            self._settle()

    def _settle(self) -> None:
        """Wait until all that was begun to be written is on the disk."""
        with self._storage_errors():
            self._size += self._saving.settle()
        if self._size > self._limit:
            self.rewrite()

    def close(self) -> None:
        """Close the file; it can be opened anew by `rewrite`."""
        with contextlib.suppress(OSError):  # Whoever closes has saved before, or goes on from what the file has.
            self._saving.settle()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    @contextlib.contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStorageError(
                f"The checkpoint {self.path} cannot be written ({error.strerror}); make room and start again: at most "
                f"what was sent in the last second is sent twice."
            ) from error


def load(path: Path, identity: Mapping[str, Any], *, look_again: bool = False) -> Progress:
    """Read a checkpoint and those of the processes that shared the work; nothing there means the beginning.

    What was not yet written is wanted again: it may have come meanwhile.

    Args:
        path: of the checkpoint.
        identity: what makes the resend this one.
        look_again: whether an archive may have what Kafka did not have in an earlier run.

    Raises:
        ConfigurationError: the file is no checkpoint, or belongs to another resend.
        LocalStorageError: the file cannot be read.
    """
    progress = Progress()
    for file in [path, *_shard_files(path)]:
        found = _read(file, identity)
        if found is not None:
            progress.merge(found)
            progress.complete = progress.complete or found.complete
    progress.reopen()
    if look_again:
        progress.look_again()
    return progress


def shard_path(path: Path, shard: int) -> Path:
    """The file of one of several processes."""
    return path.with_name(f"{path.name}.shard-{shard}")


def remove_shard_files(path: Path) -> None:
    """Delete the files of the processes, after their content went into the main one."""
    for file in _shard_files(path):
        with contextlib.suppress(OSError):
            file.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep the checkpoint to this sender while the block runs.

    Raises:
        ConfigurationError: another sender has it.
        LocalStorageError: the lock file cannot be made.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LocalStorageError(
            f"The checkpoint {path} cannot be written ({error.strerror}); make room or give another place for it."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"The checkpoint {path} is in use by another sender; wait until it ends, or give each its own."
            ) from None
        yield
    finally:
        os.close(handle)


def _shard_files(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{_escape(path.name)}.shard-*"))


def _escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _read(file: Path, identity: Mapping[str, Any]) -> Progress | None:
    try:
        with file.open("rb") as lines:
            return read_lines(file, lines, identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalStorageError(
            f"The checkpoint {file} cannot be read ({error.strerror}); make it readable or give another one."
        ) from error
