"""Atomic writing of files (completely or not at all), checks of output paths, and reading of small files.

Must not know what is in a file.

A temporary file is locked (flock) by the program that writes it. One without a lock was left behind by a program that
was killed, possibly in another container; the next program that writes the same file deletes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from gapless_api.base.errors import ConfigurationError, LocalStorageError

MAX_READ_BYTES = 64 * 1024 * 1024
"""The size limit of files that are read into memory: settings, rules, keys, lists."""


def read_small(path: Path) -> bytes:
    """Read a file that is small by its nature. Raises OSError, also if it has more than `MAX_READ_BYTES` bytes."""
    with path.open("rb") as stream:
        content = stream.read(MAX_READ_BYTES + 1)
    if len(content) > MAX_READ_BYTES:  # /dev/zero, for example, never ends
        raise OSError(errno.EFBIG, f"it has more than {MAX_READ_BYTES // 1024 // 1024} MiB", str(path))
    return content


@contextlib.contextmanager
def atomic_writer(path: Path, *, what: str, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`, and rename it to `path`, synced to disk, if the block ends without an error.

    A device or a pipe (``/dev/stdout``) cannot be replaced and is written to directly.

    Args:
        path: the file; an existing one is replaced atomically; if it is a symbolic link, its target is replaced.
        what: the role of the file in messages, such as "checkpoint" or "report".
        private: whether only this user may read it (mode 0600); else the umask decides.

    Raises:
        LocalStorageError: the folder is missing or not writable, or the disk is full; no partial file remains.
    """
    temporary = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()
        _remove_abandoned(target)
        opened = _new_temporary(target, 0o600 if private else 0o666)
        temporary = Path(opened.name)
        with opened as stream:
            yield stream
            stream.flush()
            put_in_place(temporary, target)
        temporary = None
    except OSError as error:
        reason = error.strerror or error
        raise LocalStorageError(
            f"The {what} {path} cannot be written ({reason}); free some space or use another path."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


@contextlib.contextmanager
def atomic_writer_or_stdout(path: Path | None, *, what: str) -> Iterator[IO[bytes]]:
    """Like `atomic_writer`; ``None`` opens standard output. Raises LocalStorageError and BrokenPipeError."""
    if path is not None:
        with atomic_writer(path, what=what) as stream:
            yield stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LocalStorageError(
            f"The {what} cannot be written to standard output ({error.strerror}); write it to a file."
        ) from error


def temporary_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Create a temporary folder that is deleted when it is closed. Raises LocalStorageError."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise LocalStorageError(
            f"A temporary folder cannot be created ({error.strerror}); free some space, or set TMPDIR to a folder that "
            f"this user may write to."
        ) from None


def check_output(what: str, path: Path | None) -> None:
    """Check before the work starts that the file `path` can be written. Raises LocalStorageError."""
    if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK)):
        if path.is_dir():
            problem = "it is a folder"
        elif not path.parent.is_dir():
            problem = f"there is no folder {path.parent}"
        else:
            problem = f"this user may not write to the folder {path.parent}"
        raise LocalStorageError(f"The {what} {path} cannot be written ({problem}); use another path.")


def check_distinct(written: Mapping[str, Path], read: Mapping[str, Path]) -> None:
    """Check that no setting writes to the file of another setting.

    Args:
        written: the output files, by the names of their settings.
        read: the input files, by the names of their settings.

    Raises:
        ConfigurationError: two settings name the same file; the message has both names.
    """
    names = list(written)
    for index, name in enumerate(names):
        others = {**{other: written[other] for other in names[index + 1 :]}, **read}
        for other, path in others.items():
            if is_same_file(written[name], path):
                raise ConfigurationError(f"{name} and {other} are the same file ({written[name]}); give each its own.")


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, also through links; devices and pipes never count as the same."""
    stats = [status for status in (_stat(path), _stat(other)) if status is not None]
    if not all(stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) for status in stats):
        return False
    if len(stats) == 2:
        return os.path.samestat(*stats)
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except ValueError:
        return False


def _stat(path: Path) -> os.stat_result | None:
    """Return the status of an existing file; ``None`` for any other text, such as a list of filter rules."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def write_atomically(path: Path, content: bytes, *, what: str) -> None:
    """Write `content` to `path` completely or not at all. Raises LocalStorageError like `atomic_writer`."""
    with atomic_writer(path, what=what) as stream:
        stream.write(content)


def put_in_place(finished: Path, target: Path) -> None:
    """Rename `finished` to `target`, with its content and the rename synced to disk. Raises OSError."""
    _sync(finished, os.O_RDONLY)
    finished.replace(target)
    _sync(target.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _new_temporary(target: Path, mode: int) -> IO[bytes]:
    """Create a temporary file for `target`, and lock it. Raises OSError."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        stream = open(temporary, "xb", opener=opener)  # noqa: SIM115 -- with a mode; the caller closes it
        with contextlib.suppress(OSError):  # a file system without locks: no other process can delete it there either
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:  # else it was deleted before it was locked
            return stream
        stream.close()


def _remove_abandoned(target: Path) -> None:
    """Delete temporary files for `target` that programs left behind when they were killed."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp")
    for file in target.parent.iterdir():
        if not pattern.fullmatch(file.name):
            continue
        with contextlib.suppress(OSError):  # it is locked, already deleted, or belongs to another user
            handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            finally:
                os.close(handle)
