"""The progress of a resend on disk; must not know what is resent or how.

The file is JSON Lines. It begins with a complete state, written in one step (temporary file, sync, rename). Each
further line has the results of some batches, appended and synced in the background, so that saving costs one small
write whatever was saved before, and a slow disk does not delay a sender that keeps an even pace. A last line that a
crash has truncated is ignored: its batches are sent again, the one repetition that is promised.

Next to the file are a lock file, so that two senders cannot share one checkpoint, and while several processes work,
one file for each of them (``.shard-0`` …), which the next start merges.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.files import atomic_writer
from gapless_sender.replay.saved_progress import Progress, encode_line, read_lines, result_entry

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_sender.replay.account import BatchResult


class BackgroundAppend:
    """Appends content to a file and syncs it, in a thread, one append at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._content = b""
        self._error: OSError | None = None

    @property
    def in_progress(self) -> bool:
        """Whether the last append has not finished."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether the last append failed; `wait` will raise the error."""
        return self._error is not None and not self.in_progress

    @property
    def has_unwritten(self) -> bool:
        """Whether, after `wait`, there is content that could not be written."""
        return bool(self._content)

    def begin(self, handle: int, content: bytes, size: int) -> None:
        """Begin to append what could not be written before, and `content`, to a file of `size` bytes, after `wait`."""
        self._content += content
        self._thread = threading.Thread(target=self._write, args=(handle, size), name="background append")
        self._thread.start()

    def _write(self, handle: int, size: int) -> None:
        try:
            written = os.write(handle, self._content)
            if written < len(self._content):  # The disk is full: another write makes the kernel report it.
                os.write(handle, self._content[written:])
            os.fdatasync(handle)
        except OSError as error:
            self._error = error
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)

    def wait(self) -> int:
        """Wait for the append; return how many bytes the file has grown. Raises OSError if it has not grown."""
        if self._thread is None:
            return 0
        self._thread.join()
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        grown, self._content = len(self._content), b""
        return grown


SAVE_SECONDS = 0.5
SAVE_EVENTS = 16_000
"""After a crash of the program, the events of `SAVE_SECONDS`, or `SAVE_EVENTS`, may be sent twice.

After a crash of the machine it may be twice that: while the disk writes one part, the next is sent.
"""
_REWRITE_BYTES = 16 * 1024 * 1024
"""A file that has grown by this much is rewritten, so that a resend of days does not fill the disk."""


class Checkpoint:
    """A file that grows with each save."""

    def __init__(self, path: Path, identity: Mapping[str, Any], progress: Progress) -> None:
        """Write the file with `progress`. Raises LocalStorageError when it cannot be written."""
        self.path = path
        self.progress = progress
        self._identity = identity
        self._handle = -1
        self._size = 0
        self._limit = 0
        self._pending: list[dict[str, Any]] = []
        self._pending_events = 0
        self._saved_at = 0.0
        self._append = BackgroundAppend()
        self.rewrite()

    def rewrite(self) -> None:
        """Replace the file with the current state. Raises LocalStorageError."""
        size = 0
        with atomic_writer(self.path, what="checkpoint", private=True) as stream:
            for entry in self.progress.as_entries(self._identity):
                size += stream.write(encode_line(entry))
        self.close()
        self._append = BackgroundAppend()
        with self._storage_errors():
            self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = size
        self._limit = size * 2 + _REWRITE_BYTES
        self._clear_pending()

    def add(self, key: TopicPartition, result: BatchResult) -> None:
        """Add the result of a batch, which `progress` already has. Raises LocalStorageError.

        It is saved after `SAVE_SECONDS` or `SAVE_EVENTS`, in the background: a slow disk must not disturb an even
        pace. The error of a save is raised by the next batch.
        """
        self._pending.append(result_entry(key, result))
        self._pending_events += result.sent
        now = self._pending_events >= SAVE_EVENTS or self._append.failed
        if now or (time.monotonic() - self._saved_at >= SAVE_SECONDS and not self._append.in_progress):
            self._append_line({"partitions": []}, wait=False)

    def save(self) -> None:
        """Save all added results. Raises LocalStorageError."""
        self._append_line({"partitions": []})

    def _clear_pending(self) -> None:
        self._pending.clear()
        self._pending_events = 0
        self._saved_at = time.monotonic()

    def append_bounds(self, key: TopicPartition, bounds: tuple[int, int]) -> None:
        """Fix the end of an open range. Raises LocalStorageError."""
        self.progress.bounds[key] = bounds
        self._append_line({"partitions": [{"topic": key[0], "partition": key[1], "bounds": list(bounds)}]})

    def append_topic_id(self, topic: str, topic_id: str) -> None:
        """Save the ID of `topic`. Raises LocalStorageError."""
        self.progress.topic_ids[topic] = topic_id
        self._append_line({"topicIds": {topic: topic_id}, "partitions": []})

    def _append_line(self, entry: Mapping[str, Any], *, wait: bool = True) -> None:
        """Append a line with `entry` and all pending results, after the line that is being written."""
        self._wait()
        partitions = [*self._pending, *entry["partitions"]]
        if partitions or len(entry) > 1 or self._append.has_unwritten:
            self._append.begin(self._handle, encode_line({**entry, "partitions": partitions}), self._size)
        self._clear_pending()
        if wait:
            self._wait()

    def _wait(self) -> None:
        """Wait until the append in progress is on the disk."""
        with self._storage_errors():
            self._size += self._append.wait()
        if self._size > self._limit:
            self.rewrite()

    def close(self) -> None:
        """Close the file; `rewrite` opens it again."""
        with contextlib.suppress(OSError):  # The caller has saved before, or continues from what the file has.
            self._append.wait()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    @contextlib.contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStorageError(
                f"The checkpoint {self.path} cannot be written ({error.strerror}); free disk space and start again: at "
                f"most the events of the last second are sent twice."
            ) from error


def load(path: Path, identity: Mapping[str, Any], *, recheck: bool = False) -> Progress:
    """Read a checkpoint and those of its worker processes; without a file the resend begins from the start.

    What was not yet written is requested again: it may have been written since.

    Args:
        path: of the checkpoint.
        identity: distinguishes the resend from others.
        recheck: whether an archive may have what Kafka did not have in an earlier run.

    Raises:
        ConfigurationError: the file is not a checkpoint, or belongs to another resend.
        LocalStorageError: the file cannot be read.
    """
    progress = Progress()
    for file in [path, *_shard_files(path)]:
        saved = _read(file, identity)
        if saved is not None:
            progress.merge(saved)
            progress.complete = progress.complete or saved.complete
    progress.reopen()
    if recheck:
        progress.recheck()
    return progress


def shard_path(path: Path, shard: int) -> Path:
    """Return the file of one of several processes."""
    return path.with_name(f"{path.name}.shard-{shard}")


def remove_shard_files(path: Path) -> None:
    """Delete the files of the processes, after their content was saved in the main file."""
    for file in _shard_files(path):
        with contextlib.suppress(OSError):
            file.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the checkpoint while the block runs.

    Raises:
        ConfigurationError: another sender has locked it.
        LocalStorageError: the lock file cannot be created.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LocalStorageError(
            f"The checkpoint {path} cannot be written ({error.strerror}); free disk space, or give another path."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"The checkpoint {path} is in use by another sender; wait until it ends, or give each sender its own."
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
            f"The checkpoint {file} cannot be read ({error.strerror}); make it readable, or give another path."
        ) from error
