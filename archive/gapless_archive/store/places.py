"""Owns where an archive is: a folder, or a prefix of an S3-compatible store; must not know what is kept there.

A file appears completely or not at all. `Place.create` is the conditional put on which every commit rests: of several
programs that create the same file, one succeeds.
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.files import put_in_place
from gapless_archive.store.object_store import MissingObjectError, StoredObject, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_archive.store.access import S3Access
    from gapless_archive.store.object_store import ObjectStore

_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/*")
_SCRATCH = ".scratch"
_LEFT_BEHIND_SECONDS = 24 * 3600
"""After so long nobody writes to a file of `Place.scratch` any more."""


@dataclass(frozen=True, slots=True)
class PlaceAddress:
    """A folder, or a prefix of a bucket."""

    folder: Path | None = None
    """``None`` for a bucket."""
    bucket: str = ""
    prefix: str = ""
    """Without a slash at its end; empty for all of the bucket."""

    def __str__(self) -> str:
        if self.folder is not None:
            return str(self.folder)
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_place(text: str) -> PlaceAddress:
    """Read an address. Raises ValueError with the end of the sentence "it must be …"."""
    if not text.startswith("s3://"):
        if not text or "://" in text:
            raise ValueError("a folder, or s3://BUCKET/PREFIX")
        return PlaceAddress(Path(text))
    found = _BUCKET.fullmatch(text)
    prefix = (found[2] or "") if found else ""
    if found is None or (prefix and any(part in {"", ".", ".."} for part in prefix.split("/"))):
        raise ValueError("an address without empty parts, . and .. in its path; write s3://BUCKET/PREFIX")
    return PlaceAddress(None, found[1], prefix)


class Place(Protocol):
    """Files by their keys, whose parts are divided by slashes."""

    name: str
    """For messages."""

    def read(self, key: str) -> bytes:
        """All of a file.

        Raises:
            MissingObjectError: there is none.
            LocalStorageError: this machine cannot read it.
            StoreUnreachableError: the store does not answer.
        """

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of a file, each by where it begins and its length, in bytes. Raises like `read`."""

    def size(self, key: str) -> int | None:
        """How many bytes a file has; ``None`` when there is none. Raises like `read`."""

    def create(self, key: str, content: bytes) -> bool:
        """Keep `content` as a new file, synced; ``False`` when there is one already, which stays. Raises like `put`."""

    def put(self, key: str, file: Path) -> None:
        """Keep a file of `scratch` under `key`, synced; another one there is replaced. The file may be gone afterwards.

        Raises:
            ConfigurationError: we may not write there.
            LocalStorageError: the disk is full or not writable.
            StoreUnreachableError: the store does not answer.
        """

    def keys(self, prefix: str) -> list[str]:
        """The keys below `prefix`, sorted. Raises like `read`."""

    def objects(self, prefix: str) -> list[StoredObject]:
        """The files below `prefix`, sorted by their keys. Raises like `read`."""

    def children(self, prefix: str) -> list[str]:
        """The next parts of the keys below `prefix`, sorted; empty for the top. Raises like `read`."""

    def delete(self, key: str) -> None:
        """Remove a file; one that is not there does not matter. Raises like `put`."""

    def scratch(self) -> contextlib.AbstractContextManager[Path]:
        """A folder of this machine for files that are being written, which goes when the block ends."""


def open_place(address: PlaceAddress, access: S3Access) -> Place:
    """Open the place of an address. Raises ConfigurationError when the settings of a store are wrong."""
    if address.folder is not None:
        return _Folder(address.folder)
    return _Prefix(address, open_store(address.bucket, access))


class _Folder:
    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def read(self, key: str) -> bytes:
        with self._readable(key):
            return (self._folder / key).read_bytes()

    def read_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        found = []
        with self._readable(key), (self._folder / key).open("rb") as stream:
            for start, length in spans:
                stream.seek(start)
                found.append(stream.read(length))
        return found

    def size(self, key: str) -> int | None:
        try:
            return (self._folder / key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unreadable(key, error) from None

    def create(self, key: str, content: bytes) -> bool:
        with self._writable(key):
            target = self._ready(key)
            with tempfile.NamedTemporaryFile(dir=self._scratch(), delete=False) as stream:
                temporary = Path(stream.name)
                try:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                    temporary.chmod(0o666 & ~_umask())
                    os.link(temporary, target)
                except FileExistsError:
                    return False
                finally:
                    temporary.unlink()
            _sync_folder(target.parent)
        return True

    def put(self, key: str, file: Path) -> None:
        with self._writable(key):
            while True:
                try:
                    return put_in_place(file, self._ready(key))
                except FileNotFoundError:  # `delete` of another program has removed the empty folder meanwhile
                    if not file.exists():
                        raise

    def keys(self, prefix: str) -> list[str]:
        return sorted(self._below(self._folder / prefix))

    def objects(self, prefix: str) -> list[StoredObject]:
        found = []
        for key in self.keys(prefix):
            with contextlib.suppress(MissingObjectError), self._readable(key):  # another program has deleted it
                state = (self._folder / key).stat()
                found.append(StoredObject(key, state.st_size, state.st_mtime))
        return found

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
            self._remove_left_behind()
            folder = tempfile.TemporaryDirectory(dir=self._scratch())
        with folder as name:
            yield Path(name)

    def _scratch(self) -> Path:
        folder = self._folder / _SCRATCH
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _remove_left_behind(self) -> None:
        """Remove what killed programs have left."""
        for left in self._scratch().iterdir():
            with contextlib.suppress(OSError):  # another one was quicker
                if time.time() - left.stat().st_mtime > _LEFT_BEHIND_SECONDS:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _ready(self, key: str) -> Path:
        """The path of `key`, whose folders are there and synced."""
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
        """What keys can name: no hidden files, and no hidden folders at the top. Below it a topic may be called so."""
        is_top = folder == self._folder
        try:
            with os.scandir(folder) as found:
                return [
                    entry
                    for entry in found
                    if not entry.name.startswith(".") or (not is_top and entry.is_dir(follow_symlinks=False))
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unreadable(str(folder.relative_to(self._folder)), error) from None

    def _below(self, folder: Path) -> Iterator[str]:
        for entry in self._entries(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from self._below(Path(entry.path))
            else:
                yield str(Path(entry.path).relative_to(self._folder))

    @contextlib.contextmanager
    def _readable(self, key: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(self.name, key) from None
        except OSError as error:
            raise self._unreadable(key, error) from None

    def _unreadable(self, key: str, error: OSError) -> LocalStorageError:
        return LocalStorageError(f"{self.name}/{key} cannot be read ({error.strerror}); make it readable.")

    @contextlib.contextmanager
    def _writable(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            cure = "make room" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "make it writable for this user"
            raise LocalStorageError(
                f"{self.name}/{key} cannot be written ({error.strerror}); {cure}, or give another place."
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

    def put(self, key: str, file: Path) -> None:
        self._store.put(self._prefix + key, file)

    def keys(self, prefix: str) -> list[str]:
        found = self._store.keys((self._prefix + prefix).rstrip("/"))
        return [key.removeprefix(self._prefix) for key in found]

    def objects(self, prefix: str) -> list[StoredObject]:
        found = self._store.objects((self._prefix + prefix).rstrip("/"))
        return [one._replace(key=one.key.removeprefix(self._prefix)) for one in found]

    def children(self, prefix: str) -> list[str]:
        return self._store.children((self._prefix + prefix).rstrip("/"))

    def delete(self, key: str) -> None:
        self._store.delete(self._prefix + key)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="gapless-archive-") as name:
            yield Path(name)


def _missing(place: str, key: str) -> MissingObjectError:
    return MissingObjectError(f"{place}/{key} is not there; bring it back, or correct the address of the archive.")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # Linux shows it without changing it, which another thread would notice.
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
