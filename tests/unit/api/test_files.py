from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gapless_api.errors import LocalStorageError
from gapless_api.files import read_small, write_whole, written_whole


def test_a_file_appears_with_its_content_and_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "report", b"all of it", what="report")
    assert (tmp_path / "report").read_bytes() == b"all of it"
    assert (tmp_path / "report").stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"old")
    with contextlib.suppress(ZeroDivisionError), written_whole(path, what="report") as stream:
        stream.write(b"half of the new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new", what="report")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"through", what="report")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("place", ["missing/report", "file/report", "folder"])
def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LocalStorageError, match=rf"The report .*{place} cannot be written \(.*\); make room or"):
        write_whole(tmp_path / place, b"x", what="report")


def test_a_full_device_is_one_sentence() -> None:
    with pytest.raises(LocalStorageError, match=r"checkpoint /dev/full cannot be written \(No space left on device\)"):
        write_whole(Path("/dev/full"), b"x", what="checkpoint")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LocalStorageError, match="Permission denied"):
        write_whole(tmp_path / "report", b"x", what="report")


def test_a_file_system_that_takes_no_more_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from gapless_api.files import write_whole\n"
        "from gapless_api.errors import LocalStorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_whole(Path(sys.argv[1]), b'x' * 5000, what='report')\n"
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
