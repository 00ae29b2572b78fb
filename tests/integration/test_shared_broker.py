"""The proof that all tests of a run share the broker of the fixture, which none of them can stop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.machine.processes import TESTS_FOLDER, is_alive, wait_until

if TYPE_CHECKING:
    from kit.kafka.shared_broker import SharedBroker

pytestmark = pytest.mark.integration

TWO_FILES = """
import os
from pathlib import Path

def test_it(kafka):
    kafka.create_topic(f"of-{os.getpid()}-" + Path(__file__).stem)
    (Path(__file__).parent / f"seen.{Path(__file__).stem}").write_text(f"{os.getpid()} {kafka.folder}")
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_every_process_of_a_run_gets_the_same_broker_which_ends_with_the_run(tmp_path: Path, workers: int) -> None:
    (tmp_path / "conftest.py").write_text((TESTS_FOLDER / "conftest.py").read_text())
    for name in ("one", "other"):
        (tmp_path / f"test_{name}.py").write_text(TWO_FILES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"-n{workers}", "--dist=loadfile"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS_FOLDER)}
    ended = subprocess.run(
        [*command, tmp_path], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen = [file.read_text().split() for file in sorted(tmp_path.glob("seen.*"))]
    assert len({process for process, _ in seen}) == max(workers, 1)
    (folder,) = {folder for _, folder in seen}
    assert not Path(folder).exists()
    assert "Traceback" not in ended.stderr, ended.stderr
    brokers = [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if folder in _content(file)]
    wait_until(lambda: not any(map(is_alive, brokers)), what="the end of the broker")


def _content(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""  # the process has ended


def test_a_test_cannot_stop_it(kafka: SharedBroker) -> None:
    for refused in (kafka.start, kafka.stop, kafka.kill, kafka.restart, kafka.close):
        with pytest.raises(RuntimeError, match="All tests share this broker"):
            refused()
    assert kafka.running
