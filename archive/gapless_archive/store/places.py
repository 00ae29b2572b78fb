"""The places of archives: a folder, or a prefix of an S3-compatible store; must not know their content.

Files appear completely or not at all. `Place.create` is the conditional put that commits depend on: of several programs
that create the same file, one succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.files import put_in_place
from gapless_archive.store.object_store import MissingObjectError, ObjectStore, StoredObject, open_store

if TYPE_CHECKING:
    from gapless_archive.store.access import S3Access

_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/*")
_SCRATCH = ".scratch"
_STALE_SCRATCH_SECONDS = 24 * 3600
"""After this time, no running program uses a file of `Place.scratch`."""


@dataclass(frozen=True, slots=True)
class PlaceAddress:
    """A folder, or a prefix of a bucket."""

    folder: Path | None = None
    """``None`` for a bucket."""
    bucket: str = ""
    prefix: str = ""
    """Without a trailing slash; empty for the complete bucket."""

    def __str__(self) -> str:
        if self.folder is not None:
            return str(self.folder)
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_place(text: str) -> PlaceAddress:
    """Parse an address. Raises ValueError with the end of the sentence "it must be …"."""
    if not text.startswith("s3://"):
        if not text or "://" in text:
            raise ValueError("a folder, or s3://BUCKET/PREFIX")
        return PlaceAddress(Path(text))
    match = _BUCKET.fullmatch(text)
    prefix = (match[2] or "") if match else ""
    if match is None or (prefix and any(part in {"", ".", ".."} for part in prefix.split("/"))):
        raise ValueError("an address without empty parts, . and .. in its path; write s3://BUCKET/PREFIX")
    return PlaceAddress(None, match[1], prefix)


class Place(Protocol):
    """Files with keys, whose components are separated by slashes."""

    name: str
    """For messages."""

    def read(self, key: str) -> bytes:
        """Read a file completely.

        Raises:
            MissingObjectError: the file does not exist.
            LocalStorageError: a local file cannot be read.
            StoreUnreachableError: the store does not answer.
        """

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read ranges of a file, each given by start and length in bytes. Raises like `read`."""

    def size(self, key: str) -> int | None:
        """Return the size of a file in bytes; ``None`` when it does not exist. Raises like `read`."""

    def create(self, key: str, content: bytes) -> bool:
        """Create a file with unique content, synced to disk; change nothing if it exists.

        Returns:
            Whether the file has this content, also if the answer to the first of several tries was lost. Raises like
            `put`, and ConfigurationError if the store ignores the condition.
        """

    def check_creation(self) -> None:
        """Check that `create` replaces nothing in this place, once per process. Raises like `create`."""

    def put(self, key: str, file: Path) -> None:
        """Store a file of `scratch` under `key`, synced, replacing an existing one. The local file may be moved.

        Raises:
            ConfigurationError: permission to write is missing.
            LocalStorageError: the disk is full or not writable.
            StoreUnreachableError: the store does not answer.
        """

    def keys(self, prefix: str) -> list[str]:
        """List the keys below `prefix`, sorted. Raises like `read`."""

    def objects(self, prefix: str) -> list[StoredObject]:
        """List the files below `prefix`, sorted by key. Raises like `read`."""

    def children(self, prefix: str) -> list[str]:
        """List the next components of the keys below `prefix` (empty for the top), sorted. Raises like `read`."""

    def delete(self, key: str) -> None:
        """Delete a file if it exists. Raises like `put`."""

    def scratch(self) -> contextlib.AbstractContextManager[Path]:
        """Create a local folder for unfinished files, which is removed when the block ends."""


def open_place(address: PlaceAddress, access: S3Access) -> Place:
    """Open the place at an address. Raises ConfigurationError when the settings of a store are wrong."""
    if address.folder is not None:
        return _Folder(address.folder)
    return _Prefix(address, open_store(address.bucket, access, address.prefix))


class _Folder:
    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def read(self, key: str) -> bytes:
        with self._readable(key):
            return (self._folder / key).read_bytes()

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        contents = []
        with self._readable(key), (self._folder / key).open("rb") as stream:
            for start, length in spans:
                stream.seek(start)
                contents.append(stream.read(length))
        return contents

    def size(self, key: str) -> int | None:
        try:
            return (self._folder / key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._read_error(key, error) from None

    def create(self, key: str, content: bytes) -> bool:
        with self._writable(key):
            target = self._prepare(key)
            with tempfile.NamedTemporaryFile(dir=self._scratch_folder(), delete=False) as stream:
                temporary = Path(stream.name)
                try:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                    temporary.chmod(0o666 & ~_umask())
                    os.link(temporary, target)
                except FileExistsError:
                    return target.read_bytes() == content
                finally:
                    temporary.unlink()
            _sync_folder(target.parent)
        return True

    def check_creation(self) -> None:
        """Send nothing: `os.link` never replaces a file, and fails in file systems without hard links."""

    def put(self, key: str, file: Path) -> None:
        with self._writable(key):
            while True:
                try:
                    return put_in_place(file, self._prepare(key))
                except FileNotFoundError:  # `delete` of another program has removed the empty folder
                    if not file.exists():
                        raise

    def keys(self, prefix: str) -> list[str]:
        return sorted(self._walk(self._folder / prefix))

    def objects(self, prefix: str) -> list[StoredObject]:
        objects = []
        for key in self.keys(prefix):
            with contextlib.suppress(MissingObjectError), self._readable(key):  # another program may have deleted it
                status = (self._folder / key).stat()
                objects.append(StoredObject(key, status.st_size, status.st_mtime))
        return objects

    def children(self, prefix: str) -> list[str]:
        return sorted(entry.name for entry in self._entries(self._folder / prefix))

    def delete(self, key: str) -> None:
        with self._writable(key):
            (self._folder / key).unlink(missing_ok=True)
            for folder in (self._folder / key).parents:
                if folder == self._folder:
                    break
                try:
                    folder.rmdir()
                except OSError:
                    break

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        with self._writable(_SCRATCH):
            self._remove_stale_scratch()
            folder = tempfile.TemporaryDirectory(dir=self._scratch_folder())
        with folder as name:
            yield Path(name)

    def _scratch_folder(self) -> Path:
        folder = self._folder / _SCRATCH
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _remove_stale_scratch(self) -> None:
        """Remove unfinished files of programs that were killed."""
        for path in self._scratch_folder().iterdir():
            with contextlib.suppress(OSError):  # another program may remove it, too
                if time.time() - path.stat().st_mtime > _STALE_SCRATCH_SECONDS:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _prepare(self, key: str) -> Path:
        """Return the path of `key`, after creating and syncing its folders."""
        target = self._folder / key
        missing = []
        for folder in target.parents:
            if folder.exists():
                break
            missing.append(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _sync_folder(folder.parent)
        return target

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """List what keys can name: no hidden files, and no hidden folders at the top. Topics may begin with a dot."""
        is_top = folder == self._folder
        try:
            with os.scandir(folder) as entries:
                return [
                    entry
                    for entry in entries
                    if not entry.name.startswith(".") or (not is_top and entry.is_dir(follow_symlinks=False))
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._read_error(str(folder.relative_to(self._folder)), error) from None

    def _walk(self, folder: Path) -> Iterator[str]:
        for entry in self._entries(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
            else:
                yield str(Path(entry.path).relative_to(self._folder))

    @contextlib.contextmanager
    def _readable(self, key: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(self.name, key) from None
        except OSError as error:
            raise self._read_error(key, error) from None

    def _read_error(self, key: str, error: OSError) -> LocalStorageError:
        return LocalStorageError(f"{self.name}/{key} cannot be read ({error.strerror}); make it readable.")

    @contextlib.contextmanager
    def _writable(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            remedy = "free disk space" if is_full else "make it writable for this user"
            raise LocalStorageError(
                f"{self.name}/{key} cannot be written ({error.strerror}); {remedy}, or choose another location."
            ) from error


class _Prefix:
    def __init__(self, address: PlaceAddress, store: ObjectStore) -> None:
        self.name = str(address)
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._store = store

    def read(self, key: str) -> bytes:
        content = io.BytesIO()
        try:
            self._store.get(self._prefix + key, content)
        except MissingObjectError:
            raise _missing(self.name, key) from None
        return content.getvalue()

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._store.ranges(self._prefix + key, spans)

    def size(self, key: str) -> int | None:
        return self._store.size(self._prefix + key)

    def create(self, key: str, content: bytes) -> bool:
        return self._store.replace(self._prefix + key, content, None)

    def check_creation(self) -> None:
        self._store.check_conditions("If-None-Match")

    def put(self, key: str, file: Path) -> None:
        self._store.put(self._prefix + key, file)

    def keys(self, prefix: str) -> list[str]:
        keys = self._store.keys((self._prefix + prefix).rstrip("/"))
        return [key.removeprefix(self._prefix) for key in keys]

    def objects(self, prefix: str) -> list[StoredObject]:
        objects = self._store.objects((self._prefix + prefix).rstrip("/"))
        return [stored._replace(key=stored.key.removeprefix(self._prefix)) for stored in objects]

    def children(self, prefix: str) -> list[str]:
        return self._store.children((self._prefix + prefix).rstrip("/"))

    def delete(self, key: str) -> None:
        self._store.delete(self._prefix + key)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="gapless-archive-") as name:
            yield Path(name)


def _missing(place: str, key: str) -> MissingObjectError:
    return MissingObjectError(
        f"{place}/{key} does not exist; restore it from a backup, or correct the address of the archive."
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # os.umask would change it for other threads for a moment.
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
