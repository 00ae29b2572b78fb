"""Two audits with one state in a store: one changes it, the other one ends with a sentence, and nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import pytest

from gapless_api.base.errors import GaplessError, LocalStorageError
from gapless_archive.store import state_place
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import MissingObjectError, ObjectAddress, ObjectStore
from gapless_archive.store.state_place import HEAD, StateError, blocks_name, open_place


class Bucket:
    """A bucket in memory; something may happen before it is listed."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.before_list: Callable[[], None] = lambda: None

    def get(self, key: str, into: IO[bytes]) -> None:
        if key not in self.objects:
            raise MissingObjectError(key)
        into.write(self.objects[key])

    def put(self, key: str, file: Path) -> None:
        self.objects[key] = file.read_bytes()

    def tag(self, key: str) -> str | None:
        return str(hash(self.objects[key])) if key in self.objects else None

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        if self.tag(key) != tag:
            return False
        self.objects[key] = content
        return True

    def check_conditions(self, *_: str) -> None:
        """Obey all conditions."""

    def keys(self, prefix: str) -> list[str]:
        happens, self.before_list = self.before_list, lambda: None
        happens()
        return sorted(key for key in self.objects if key.startswith(f"{prefix}/"))

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    made = Bucket()
    monkeypatch.setattr(state_place, "open_store", lambda *_: cast("ObjectStore", made))
    return made


def a_place() -> state_place.StatePlace:
    return open_place(ObjectAddress("bucket", "state"), S3Access())


def an_audit(generation: int) -> str:
    """Continue the state, and return the name of its blocks."""
    with a_place() as place:
        place.head()
        return written(place, generation)


def written(place: state_place.StatePlace, generation: int) -> str:
    file = blocks_name(generation)
    with place.new_blocks(file) as stream:
        stream.write(b"blocks")
    place.commit(f"head {file}".encode(), file)
    return file


@pytest.mark.usefixtures("bucket")
def test_a_state_that_another_audit_has_changed_meanwhile_is_not_called_damaged() -> None:
    file = an_audit(1)
    with a_place() as late:
        late.head()
        an_audit(2)
        with pytest.raises(StateError, match="Another audit has changed the state s3://bucket/state"):
            late.blocks(file)


def test_blocks_that_are_gone_although_the_head_names_them_are_left_to_the_reader(bucket: Bucket) -> None:
    file = an_audit(1)
    bucket.delete(f"state/{file}")
    with a_place() as place:
        place.head()
        assert not place.blocks(file).exists()


def test_an_audit_that_cleans_up_late_leaves_the_blocks_of_the_next_one(bucket: Bucket) -> None:
    an_audit(1)
    following: list[str] = []
    with a_place() as place:
        place.head()
        bucket.objects["state/blocks-00000002-0badcafe.arrow"] = b"of an audit that came too late"
        bucket.before_list = lambda: following.append(an_audit(3))
        written(place, 2)
    assert sorted(bucket.objects) == [f"state/{following[0]}", f"state/{HEAD}"]


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EWOULDBLOCK, StateError, "Another audit uses the state"),
        (errno.ENOLCK, LocalStorageError, r"cannot be locked \(No locks available\)"),
        (errno.EOPNOTSUPP, LocalStorageError, r"cannot be locked \(Operation not supported\)"),
    ],
)
def test_a_folder_that_cannot_be_locked_is_not_called_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[GaplessError], words: str
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(kind, match=words), open_place(tmp_path / "state", S3Access()):
        pass


@pytest.mark.usefixtures("bucket")
def test_no_room_for_temporary_files_is_one_sentence_and_leaves_the_state_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_audit(1)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with a_place() as place:
        before = place.head()
        with pytest.raises(LocalStorageError, match="No space left"), place.new_blocks(blocks_name(2)):
            raise full
        assert place.head() == before
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(LocalStorageError, match="temporary folder cannot be created"), a_place():
        pass
