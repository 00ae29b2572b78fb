"""Owns how a file appears on disk, completely or not at all and in no other's place, and how a small one is read.

Must not know what is in it.

A temporary file is locked (flock) by the program that writes it. One without a lock was left by a program that was
killed, in whatever container it ran, and the next one that writes the same file deletes it.
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
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, LocalStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


MOST_READ = 64 * 1024 * 1024
"""Bytes of a file that is read into memory: settings, rules, keys, lists."""


def read_small(path: Path) -> bytes:
    """Read a file that is small by its nature. Raises OSError, also when it has more than `MOST_READ` bytes."""
    with path.open("rb") as stream:
        content = stream.read(MOST_READ + 1)
    if len(content) > MOST_READ:  # Such as /dev/zero, which never ends.
        raise OSError(errno.EFBIG, f"it has more than {MOST_READ // 1024 // 1024} MiB", str(path))
    return content


@contextlib.contextmanager
def written_whole(path: Path, *, what: str, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` and put it in place, synced to disk, when the block ends without an error.

    A device or a pipe (``/dev/stdout``) cannot be replaced without harm and is written to as it is.

    Args:
        path: where the file shall be; an older one is replaced in one step, behind a symbolic link if it is one.
        what: the file's role in a message, such as "checkpoint" or "report".
        private: only this user may read it (mode 0600); else the umask decides.

    Raises:
        LocalStorageError: the folder is missing or not writable, or the disk is full; nothing half-written is left.
    """
    temporary = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()
        _remove_left_behind(target)
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
            f"The {what} {path} cannot be written ({reason}); make room or give another place for it."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


@contextlib.contextmanager
def written_whole_or_shown(path: Path | None, *, what: str) -> Iterator[IO[bytes]]:
    """Like `written_whole`, but for ``None`` open standard output. Raises LocalStorageError, and BrokenPipeError."""
    if path is not None:
        with written_whole(path, what=what) as stream:
            yield stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LocalStorageError(
            f"The {what} cannot be written to standard output ({error.strerror}); give a file instead."
        ) from error


def temporary_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Make a folder that goes when it is closed. Raises LocalStorageError."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise LocalStorageError(
            f"There is no place for temporary files ({error.strerror}); make room, or set TMPDIR to a folder that this "
            f"user may write to."
        ) from None


def check_output(what: str, path: Path | None) -> None:
    """Find out, before the work, whether the file `path` can be written. Raises LocalStorageError."""
    if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK)):
        problem = "it is a folder" if path.is_dir() else f"{path.parent} is no folder that this user may write to"
        raise LocalStorageError(f"The {what} {path} cannot be written ({problem}); give another place for it.")


def check_distinct(written: Mapping[str, Path], read: Mapping[str, Path]) -> None:
    """Refuse settings of which one would write into the file of another.

    Args:
        written: the files that are written, by the names of their settings.
        read: the same of those that are read.

    Raises:
        ConfigurationError: with both names.
    """
    names = list(written)
    for index, name in enumerate(names):
        others = {**{other: written[other] for other in names[index + 1 :]}, **read}
        for other, place in others.items():
            if is_same_file(written[name], place):
                raise ConfigurationError(f"{name} and {other} are one file ({written[name]}); give each its own.")


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by name or, as links do, by what is there; devices and pipes are nobody's."""
    kinds = {kind for kind, _ in (*_identity(one), *_identity(other))}
    if kinds and not kinds <= {stat.S_IFREG, stat.S_IFDIR}:
        return False
    found = [identity for path in (one, other) for _, identity in _identity(path)]
    if len(found) == 2:
        return found[0] == found[1]
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return False


def _identity(path: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """Kind, device and inode; nothing if nothing is there (a list of filter rules is no path at all)."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return
    yield stat.S_IFMT(found.st_mode), (found.st_dev, found.st_ino)


def write_whole(path: Path, content: bytes, *, what: str) -> None:
    """Write `content` to `path` completely or not at all. Raises LocalStorageError like `written_whole`."""
    with written_whole(path, what=what) as stream:
        stream.write(content)


def put_in_place(finished: Path, target: Path) -> None:
    """Rename `finished` to `target`; both its content and the renaming survive a power cut. Raises OSError."""
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
    """Make a temporary file for `target`, and lock it. Raises OSError."""

    def made(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        stream = open(temporary, "xb", opener=made)  # noqa: SIM115 -- with a mode; the caller closes it
        with contextlib.suppress(OSError):  # A file system without locks; there no other process deletes it either.
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:  # Else it was deleted before it was locked.
            return stream
        stream.close()


def _remove_left_behind(target: Path) -> None:
    """Delete temporary files for `target` whose programs are gone."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp")
    for file in target.parent.iterdir():
        if not ours.fullmatch(file.name):
            continue
        with contextlib.suppress(OSError):  # It is locked, was deleted meanwhile, or is not ours to delete.
            handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            finally:
                os.close(handle)
