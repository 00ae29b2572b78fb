"""Owns how far a resend has come, on disk; must not know what is resent or how.

The file is JSON Lines. What it begins with is a whole state, written in one result (temporary file, sync, rename); each
further line is what some batches added, appended and synced beside the work, so that saving costs one small write
however much has happened before. A last line that a crash has cut is ignored: its batches are sent again, the one
repetition that is promised.

Beside the file stands a lock file, so that two senders cannot share one checkpoint, and while several processes work,
one file for each of them (``.shard-0`` …), which the next start takes in.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import IO, TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.files import written_whole
from gapless_api.offsets.ids import MAX_PARTITION, TopicPartition, is_topic
from gapless_sender.replay.account import BatchResult, PartitionAccount, whole
from gapless_sender.replay.background_append import BackgroundAppend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

VERSION = 2
READABLE_VERSIONS = frozenset({1, VERSION})
"""Version 1 had no topic ids; the first start that goes on from such a file adds them."""
SAVE_SECONDS = 0.5
SAVE_EVENTS = 16_000
"""So much, or what was sent in that time, may be sent twice after a crash of the program.

After one of the machine it may be twice that: while the disk takes one part, the next is sent.
"""
_REWRITE_BYTES = 16 * 1024 * 1024
"""A file that grew by so much is begun anew, so that a resend of days does not fill the disk."""

_MOST_RANGES = 50_000
"""Of a line that begins a file anew."""

_MOST_SETTINGS = 20
"""A resend is told from others by half as many."""


class Progress:
    """The accounts of all partitions, and the end that each open range was given at the first start."""

    def __init__(self) -> None:
        self.accounts: dict[TopicPartition, PartitionAccount] = {}
        self.bounds: dict[TopicPartition, tuple[int, int]] = {}
        """First offset and end (exclusive) of what was wanted without numbers, fixed at the first start."""
        self.topic_ids: dict[str, str] = {}
        """By Kafka's name of the topic: what tells it from a later one of the same name."""
        self.complete = False

    def account(self, key: TopicPartition) -> PartitionAccount:
        """The account of one partition."""
        return self.accounts.setdefault(key, PartitionAccount())

    def take(self, entry: Mapping[str, Any]) -> None:
        """Take in one object of the file. Raises ValueError, KeyError or TypeError when it is none."""
        if "complete" in entry:
            self.complete = bool(entry["complete"])
        for topic, found in dict(entry.get("topicIds", {})).items():
            self.topic_ids[str(topic)] = str(found)
        for part in entry["partitions"]:
            key = (_topic(part["topic"]), whole(part["partition"], MAX_PARTITION))
            if "bounds" in part:
                first, end = part["bounds"]
                self.bounds[key] = (whole(first), whole(end))
            if "cursor" in part:
                self.account(key).apply(BatchResult.from_json(part))

    def merge(self, other: Progress) -> None:
        """Take over every partition in which `other` has come further."""
        for key, account in other.accounts.items():
            mine = self.accounts.get(key)
            if mine is None or account.accounted > mine.accounted:
                self.accounts[key] = account
        for key, bounds in other.bounds.items():
            self.bounds.setdefault(key, bounds)
        for topic, found in other.topic_ids.items():
            self.topic_ids.setdefault(topic, found)

    def reopen(self) -> None:
        """Want again, in a new run, what was not yet written at the end of the last one."""
        for account in self.accounts.values():
            if account.reopen():
                self.complete = False

    def as_entries(self, identity: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The whole state as the lines of a file, of which none is long: there may be ten million ranges."""
        yield {
            "gaplessCheckpoint": VERSION,
            "resend": dict(identity),
            "complete": self.complete,
            "topicIds": self.topic_ids,
            "partitions": [
                {"topic": topic, "partition": partition, "bounds": list(bounds)}
                for (topic, partition), bounds in sorted(self.bounds.items())
            ],
        }
        for key, account in sorted(self.accounts.items()):
            for result in account.as_results(_MOST_RANGES):
                yield {"partitions": [_result_entry(key, result)]}


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
        with written_whole(self.path, what="checkpoint", private=True) as stream:
            for entry in self.progress.as_entries(self._identity):
                size += stream.write(_line(entry))
        self.close()
        self._saving = BackgroundAppend()
        with self._storage_errors():
            self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = size
        self._limit = size * 2 + _REWRITE_BYTES
        self._all_saved()

    def note(self, key: TopicPartition, result: BatchResult) -> None:
        """Add what a batch did, which `progress` has already. Raises LocalStorageError.

        It is saved once `SAVE_SECONDS` or `SAVE_EVENTS` are over, beside the work that goes on: a disk may take its
        time, and a pace that is to be even has none to spare. What an earlier save met is raised by the next batch.
        """
        self._noted.append(_result_entry(key, result))
        self._noted_events += result.sent
        now = self._noted_events >= SAVE_EVENTS or self._saving.failed
        if now or (time.monotonic() - self._saved_at >= SAVE_SECONDS and not self._saving.under_way):
            self._append({"partitions": []}, wait=False)

    def save(self) -> None:
        """Make what was noted survive a crash. Raises LocalStorageError."""
        self._append({"partitions": []})

    def _all_saved(self) -> None:
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
            self._saving.begin(self._handle, _line({**entry, "partitions": partitions}), self._size)
        self._all_saved()
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


def load(path: Path, identity: Mapping[str, Any]) -> Progress:
    """Read a checkpoint and those of the processes that shared the work; nothing there means the beginning.

    What was not yet written is wanted again: it may have come meanwhile.

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
    return sorted(path.parent.glob(f"{_escaped(path.name)}.shard-*"))


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _read(file: Path, identity: Mapping[str, Any]) -> Progress | None:
    try:
        with file.open("rb") as lines:
            return _read_lines(file, lines, identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalStorageError(
            f"The checkpoint {file} cannot be read ({error.strerror}); make it readable or give another one."
        ) from error


def _read_lines(file: Path, lines: IO[bytes], identity: Mapping[str, Any]) -> Progress:
    progress = Progress()
    try:
        header = json.loads(next(lines, b""))
        version = whole(header["gaplessCheckpoint"])
        if version not in READABLE_VERSIONS:
            raise ConfigurationError(
                f"The checkpoint {file} is of version {version} and this program knows {VERSION}; go on with the "
                f"program that wrote it, or delete the file to begin anew."
            )
        theirs = _identity_of(header["resend"])
        progress.take(header)
        for line in lines:
            if line.endswith(b"\n"):  # Else a crash has cut it.
                progress.take(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"The file {file} is no checkpoint of gapless resend; give another path, or delete the file to begin anew."
        ) from None
    ours = json.loads(json.dumps(identity))
    if theirs != ours:
        different = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        shown = ", ".join(
            f"{_printable(name)} was {_short(theirs.get(name))} and is {_short(ours.get(name))}" for name in different
        )
        raise ConfigurationError(
            f"The checkpoint {file} belongs to another resend ({shown}); give the same settings again, or another "
            f"checkpoint."
        )
    return progress


def _identity_of(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or len(found) > _MOST_SETTINGS:
        raise ValueError("no settings")
    return found


def _topic(found: Any) -> str:
    if not isinstance(found, str) or not is_topic(found):
        raise ValueError("no topic")
    return found


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) > 20:
        return f"{_printable(value[:12])}…"
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _printable(text: str) -> str:
    return text[:60].encode("unicode_escape").decode("ascii") if not text.isprintable() else text[:60]


def _result_entry(key: TopicPartition, result: BatchResult) -> dict[str, Any]:
    return {"topic": key[0], "partition": key[1], **result.as_json()}


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
