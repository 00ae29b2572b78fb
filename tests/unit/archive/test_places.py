import threading
from pathlib import Path

import pytest

from gapless_api.base.errors import LocalStorageError
from gapless_archive.store import places
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import MissingObjectError
from gapless_archive.store.places import Place, PlaceAddress, open_place, parse_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return open_place(parse_place(str(tmp_path / "archive")), S3Access())


def test_an_address_is_a_folder_or_a_prefix_of_a_bucket() -> None:
    assert parse_place("/srv/archive") == PlaceAddress(Path("/srv/archive"))
    assert parse_place("s3://bucket") == PlaceAddress(None, "bucket", "")
    assert parse_place("s3://bucket/a/b/") == PlaceAddress(None, "bucket", "a/b")
    assert str(parse_place("s3://bucket/a/b/")) == "s3://bucket/a/b"


@pytest.mark.parametrize("text", ["", "http://host/a", "s3://B/a", "s3://bucket/a//b", "s3://bucket/../b", "s3://"])
def test_another_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"s3://BUCKET/PREFIX"):
        parse_place(text)


def test_a_file_is_created_once(place: Place) -> None:
    assert place.create("a/b.json", b"first")
    assert not place.create("a/b.json", b"second")
    assert place.read("a/b.json") == b"first"
    assert place.keys("") == ["a/b.json"]


def test_of_several_programs_one_creates_a_file(place: Place) -> None:
    began, made = threading.Barrier(8), []

    def create(number: int) -> None:
        began.wait()
        if place.create("chain/1.json", str(number).encode()):
            made.append(number)

    programs = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()

    assert [str(number).encode() for number in made] == [place.read("chain/1.json")]


def test_a_finished_file_is_moved_into_the_place(place: Place) -> None:
    with place.scratch() as folder:
        (folder / "segment").write_bytes(b"0123456789")
        place.put("topic/segment", folder / "segment")
    assert not folder.exists()
    assert place.size("topic/segment") == 10
    assert place.read_ranges("topic/segment", [(0, 2), (8, 5)]) == [b"01", b"89"]
    assert place.children("") == ["topic"]


def test_hidden_files_have_no_keys_and_folders_of_topics_that_begin_with_a_dot_have(
    place: Place, tmp_path: Path
) -> None:
    place.create("r/.topic/a", b"")
    (tmp_path / "archive/r/.nfs0001").touch()
    (tmp_path / "archive/.snapshot").mkdir()
    (tmp_path / "archive/.snapshot/a").touch()
    assert place.keys("") == ["r/.topic/a"]
    assert (place.children(""), place.children("r")) == (["r"], [".topic"])


def test_a_folder_that_another_program_removes_meanwhile_is_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    put_in_place = places.put_in_place

    def removed_at_first(finished: Path, target: Path) -> None:
        if not synced:
            target.parent.rmdir()  # as `delete` does behind the last file
        synced.append(target)
        put_in_place(finished, target)

    monkeypatch.setattr(places, "put_in_place", removed_at_first)
    with place.scratch() as folder:
        (folder / "a").write_bytes(b"content")
        place.put("topic/level-0/a", folder / "a")
    assert (len(synced), place.read("topic/level-0/a")) == (2, b"content")


def test_what_is_not_there_is_not_there(place: Place) -> None:
    assert place.size("a") is None
    assert place.keys("a") == place.children("a") == []
    place.delete("a")
    with pytest.raises(MissingObjectError, match=r"archive/a does not exist; restore it from a backup"):
        place.read("a")


def test_empty_folders_go_with_their_last_file(place: Place, tmp_path: Path) -> None:
    place.create("a/b/c", b"")
    place.delete("a/b/c")
    assert not (tmp_path / "archive" / "a").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalStorageError, match=r"file/a cannot be written \(File exists\); make it writable"):
        open_place(PlaceAddress(tmp_path / "file"), S3Access()).create("a", b"")
