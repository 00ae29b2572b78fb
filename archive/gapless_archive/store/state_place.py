"""Where an audit's state is stored: a folder or a prefix of an S3-compatible store, replaced atomically.

A new file of blocks is written first, then the head that names it, and then unused files are deleted. After an
interruption, either the old state or the new one exists. Must not know the content of a state.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, Self

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.files import atomic_writer, temporary_folder, write_atomically
from gapless_archive.store.conditional_puts import PROBES_FOLDER
from gapless_archive.store.object_store import MissingObjectError, ObjectAddress, ObjectStore, open_store

if TYPE_CHECKING:
    import tempfile

    from gapless_archive.store.access import S3Access

HEAD = "state.json"
_LOCK = "lock"
_BLOCKS = re.compile(r"blocks-(\d{8})-[0-9a-f]{8}\.arrow")
_UNFINISHED = re.compile(r"\.(state\.json|blocks-\d{8}-[0-9a-f]{8}\.arrow)\.\w+\.tmp")


class StateError(ConfigurationError):
    """A state cannot be continued; the user must decide whether to start a new one."""


class StatePlace(Protocol):
    """A place for one state. A folder is locked within a ``with`` block; in a store, `commit` detects other writers."""

    name: str

    def __enter__(self) -> Self:
        """Acquire the place. Raises StateError when another audit uses it."""

    def __exit__(self, *_: object) -> None:
        """Release the place."""

    def head(self) -> bytes | None:
        """Read the head that was committed last; ``None`` when a new state can start here.

        Raises:
            StateError: the head is missing, and other files exist.
        """

    def blocks(self, file: str) -> Path:
        """Return a local copy of a file of blocks, which need not exist.

        Raises:
            StateError: another audit has changed the state.
        """

    def new_blocks(self, file: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Open a new file of blocks, which is stored when the ``with`` block ends without an error."""

    def commit(self, head: bytes, blocks_file: str) -> None:
        """Replace the head, then delete superseded blocks. Raises StateError when another audit has replaced it."""


def blocks_name(generation: int) -> str:
    """Return a unique name for a new file of blocks, so that no file is ever replaced."""
    return f"blocks-{generation:08d}-{secrets.token_hex(4)}.arrow"


def _is_superseded(file: str, blocks_file: str) -> bool:
    """Whether a head with `blocks_file` makes `file` obsolete. Files of a later audit, which has started, are not."""
    match, current = _BLOCKS.fullmatch(file), _BLOCKS.fullmatch(blocks_file)
    return file != blocks_file and match is not None and (current is None or int(match[1]) <= int(current[1]))


def open_place(place: Path | ObjectAddress, access: S3Access) -> StatePlace:
    """Open the place of a setting. Raises ConfigurationError when the settings of a store are wrong."""
    if isinstance(place, ObjectAddress):
        return _Prefix(place, open_store(place.bucket, access, place.key))
    return _Folder(place)


def _check_unstarted(name: str, files: list[str]) -> None:
    """Check that a state without a head was never committed. Raises StateError."""
    foreign = [
        file for file in files if file != _LOCK and not _BLOCKS.fullmatch(file) and not _UNFINISHED.fullmatch(file)
    ]
    if foreign:
        raise StateError(f"{name} is not an audit's state (it contains {foreign[0]}); give an empty folder or prefix.")
    later = [file for file in files if (match := _BLOCKS.fullmatch(file)) and int(match[1]) > 1]
    if later:
        raise StateError(
            f"The state {name} is damaged (its head {HEAD} is missing, but {later[0]} exists); restore it from a "
            f"backup, or give an empty folder or prefix to start a new one."
        )


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(exist_ok=True)
            self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LocalStorageError(
                f"The state {self.name} cannot be written ({error.strerror}); give a folder that this user may write "
                f"to."
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise StateError(
                f"Another audit uses the state {self.name}; wait until it has ended, or use a separate state for each."
            ) from None
        except OSError as error:
            self.__exit__()
            raise LocalStorageError(
                f"The state {self.name} cannot be locked ({error.strerror}); give a folder of a file system that "
                f"supports locks, or a prefix of an object store."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def head(self) -> bytes | None:
        try:
            return (self._folder / HEAD).read_bytes()
        except FileNotFoundError:
            _check_unstarted(self.name, sorted(file.name for file in self._folder.iterdir()))
            return None
        except OSError as error:
            raise StateError(
                f"The head {HEAD} of the state {self.name} cannot be read ({error.strerror}); make it readable."
            ) from None

    def blocks(self, file: str) -> Path:
        return self._folder / file

    def new_blocks(self, file: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        return atomic_writer(self._folder / file, what="state")

    def commit(self, head: bytes, blocks_file: str) -> None:
        write_atomically(self._folder / HEAD, head, what="state")
        for file in self._folder.iterdir():
            if _is_superseded(file.name, blocks_file) or _UNFINISHED.fullmatch(file.name):
                with contextlib.suppress(OSError):  # the next run tries again
                    file.unlink()


class _Prefix:
    """A place without a lock: of two audits that have read the same head, the store lets only one replace it."""

    def __init__(self, address: ObjectAddress, store: ObjectStore) -> None:
        self._prefix = address.key
        self._store = store
        self.name = str(address)
        self._tag: str | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self._store.check_conditions("If-None-Match", "If-Match")
        self._temporary = temporary_folder("gapless-state-")
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def head(self) -> bytes | None:
        self._tag = self._store.tag(self._key(HEAD))
        if self._tag is None:
            _check_unstarted(self.name, self._files())
            return None
        content = io.BytesIO()
        self._store.get(self._key(HEAD), content)
        return content.getvalue()

    def blocks(self, file: str) -> Path:
        local = self._local(file)
        try:
            with local.open("wb") as stream:
                self._store.get(self._key(file), stream)
        except MissingObjectError:
            local.unlink()
            if self._store.tag(self._key(HEAD)) != self._tag:
                raise self._changed() from None
        except OSError as error:
            raise LocalStorageError(
                f"The state {self.name} cannot be copied to the local disk ({error.strerror}); free disk space, or set "
                f"TMPDIR to a larger folder."
            ) from None
        return local

    @contextlib.contextmanager
    def new_blocks(self, file: str) -> Iterator[IO[bytes]]:
        with atomic_writer(self._local(file), what="state") as stream:
            yield stream
        self._store.put(self._key(file), self._local(file))

    def commit(self, head: bytes, blocks_file: str) -> None:
        if not self._store.replace(self._key(HEAD), head, self._tag):
            raise self._changed()
        for file in self._files():
            if _is_superseded(file, blocks_file):
                self._store.delete(self._key(file))

    def _changed(self) -> StateError:
        return StateError(
            f"Another audit has changed the state {self.name}, so nothing was written; run again when it has ended, or "
            f"use a separate state for each."
        )

    def _key(self, file: str) -> str:
        return f"{self._prefix}/{file}"

    def _files(self) -> list[str]:
        files = [key.removeprefix(f"{self._prefix}/") for key in self._store.keys(self._prefix)]
        return [file for file in files if not file.startswith(f"{PROBES_FOLDER}/")]

    def _local(self, file: str) -> Path:
        if self._temporary is None:
            raise RuntimeError("the place is used outside of its with block")
        return Path(self._temporary.name) / file
