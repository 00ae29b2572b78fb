from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.files import atomic_writer, put_in_place, read_small, write_atomically


def test_a_file_appears_with_its_content_and_nothing_beside_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "report", b"all of it", what="report")
    assert (tmp_path / "report").read_bytes() == b"all of it"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"old")
    with contextlib.suppress(ZeroDivisionError), atomic_writer(path, what="report") as stream:
        stream.write(b"half of the new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", b"new", what="report")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"through", what="report")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("place", ["missing/report", "file/report", "folder"])
def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LocalStorageError, match=rf"The report .*{place} cannot be written \(.*\); free some space or"):
        write_atomically(tmp_path / place, b"x", what="report")


def test_a_full_device_is_one_sentence() -> None:
    with pytest.raises(LocalStorageError, match=r"checkpoint /dev/full cannot be written \(No space left on device\)"):
        write_atomically(Path("/dev/full"), b"x", what="checkpoint")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LocalStorageError, match="Permission denied"):
        write_atomically(tmp_path / "report", b"x", what="report")


def test_a_file_system_that_takes_no_more_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from gapless_api.base.files import write_atomically\n"
        "from gapless_api.base.errors import LocalStorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomically(Path(sys.argv[1]), b'x' * 5000, what='report')\n"
        "except LocalStorageError as error: sys.exit(str(error))\n"
    )
    path = tmp_path / "report"
    path.write_bytes(b"old")
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False, timeout=30
    )
    assert "cannot be written (File too large)" in ended.stderr
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_what_never_ends_is_not_read_for_ever(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it has more than 64 MiB"):
        read_small(Path("/dev/zero"))
    (tmp_path / "rules").write_bytes(b"deny:x")
    assert read_small(tmp_path / "rules") == b"deny:x"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The calls that make a file last, in order, each with the inode that it is about; they are made all the same."""
    calls: list[tuple[str, int]] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(handle: int) -> None:
        calls.append(("fsync", os.fstat(handle).st_ino))
        fsync(handle)

    def recorded_replace(old: Path, new: Path) -> None:
        calls.append(("rename", Path(old).stat().st_ino))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    return calls


def in_place(path: Path) -> list[tuple[str, int]]:
    file = path.stat().st_ino
    return [("fsync", file), ("rename", file), ("fsync", path.parent.stat().st_ino)]


def test_content_is_synced_before_the_renaming_and_the_folder_after_it(
    tmp_path: Path, recorded: list[tuple[str, int]]
) -> None:
    with atomic_writer(tmp_path / "report", what="report") as stream:
        stream.write(b"all of it")
    assert recorded == in_place(tmp_path / "report")


def test_a_finished_file_is_put_in_place_the_same_way(tmp_path: Path, recorded: list[tuple[str, int]]) -> None:
    (tmp_path / "finished").write_bytes(b"all of it")
    put_in_place(tmp_path / "finished", tmp_path / "target")
    assert recorded == in_place(tmp_path / "target")


def test_all_bytes_are_in_the_file_when_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    fsync = os.fsync

    def recorded_fsync(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    write_atomically(tmp_path / "report", b"x" * 5000, what="report")
    assert sizes[0] == 5000


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read_a_file_unless_it_is_private(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "report", b"x", what="report")
        with atomic_writer(tmp_path / "checkpoint", what="checkpoint", private=True) as stream:
            assert Path(stream.name).stat().st_mode & 0o777 == 0o600, "from the first moment on"
    finally:
        os.umask(before)
    assert (tmp_path / "report").stat().st_mode & 0o777 == mode
    assert (tmp_path / "checkpoint").stat().st_mode & 0o777 == 0o600


_KILLED_WHILE_WRITING = """
import os, sys
from pathlib import Path
from gapless_api.base.files import atomic_writer
with atomic_writer(Path(sys.argv[1]), what="report") as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_program_left_is_deleted_by_the_next_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report"
    subprocess.run([sys.executable, "-c", _KILLED_WHILE_WRITING, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    others = {".report.tmp", ".report.0123.tmp", ".reports.0123456789abcdef.tmp", ".report.0123456789ABCDEF.tmp"}
    for name in others:
        (tmp_path / name).write_bytes(b"")
    with atomic_writer(path, what="report") as living:
        assert not left.exists()
        write_atomically(path, b"of another program", what="report")
        assert Path(living.name).exists(), "who writes is alive"
        living.write(b"ours")
    assert path.read_bytes() == b"ours"
    assert {entry.name for entry in tmp_path.iterdir()} == {"report", *others}
