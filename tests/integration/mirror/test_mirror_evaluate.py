"""The proof that SQL evaluated in a process of its own changes nothing of what a mirror promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_mirror.sql.exchange import encode_statement
from kit.machine.processes import HANGING_SECONDS, children_of, end, wait_until

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
GAPLESS = Path(sys.executable).parent / "gapless"
_NEEDED = ("PATH", "JAVA_HOME", "HOME", "TMPDIR", "LANG")
UPPER = "SELECT upper(CAST(value AS STRING)) AS value FROM records WHERE value IS NULL OR offset % 10 <> 3"


@contextmanager
def evaluating(socket: Path, log_file: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``gapless mirror evaluate`` with nothing but the socket, as the container on Kubernetes."""
    with (log_file or socket.with_suffix(".log")).open("ab") as log:
        process = subprocess.Popen(
            [GAPLESS, "mirror", "evaluate", f"--transform-socket={socket}", "--master=local[2]"],
            stdout=log,
            stderr=log,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
        )
    try:
        yield process
    finally:
        end(process)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "s"


def values(first: int, end: int) -> list[bytes]:
    return [b"a%d" % number for number in range(first, end)]


def expected(count: int) -> list[bytes]:
    return [b"A%d" % number for number in range(count) if number % 10 != 3]


def test_a_mirror_goes_on_exactly_where_it_was_when_the_evaluation_is_killed_and_comes_back(
    scene: Scene, topic: TopicFactory, socket: Path
) -> None:
    name = topic(1)
    scene.source.produce(name, values(0, 1000))
    mirror = scene.start(
        f"--topics={name}", f"--transform={UPPER}", f"--transform-socket={socket}", "--workers=2", "--lanes=2"
    )
    with evaluating(socket) as evaluation:  # the mirror waits for it
        scene.wait_for(name, 900)
        evaluation.kill()
        scene.source.produce(name, values(1000, 1500))
        wait_until(lambda: "does not answer on" in mirror.log, what="a message about the evaluation")
    assert len(scene.arrived(name)[0]) == 900
    with evaluating(socket):
        scene.wait_for(name, 1350)
        # On a busy machine it was away for so long that the mirror reported a stall, which it also does when it stops.
        wait_until(
            lambda: mirror.log.count("stall begins") == mirror.log.count("stall ends"), what="the end of a stall"
        )
        assert mirror.stop() == 143, mirror.log
    assert [row.value for row in scene.arrived(name)[0]] == expected(1500)


def test_a_mirror_with_sql_says_what_is_wrong_before_it_copies_anything(
    scene: Scene, topic: TopicFactory, socket: Path
) -> None:
    name = topic(2)
    scene.source.produce(name, [b"1", b"2", b"three", b"4"], partition=1)
    with evaluating(socket):
        own = (f"--topics={name}", "--once", "--lanes=2", f"--transform-socket={socket}")
        refused = scene.run(*own, "--transform=SELECT * FROM records")
        assert refused.wait() == 2, refused.log
        assert "The transform cannot be applied" in refused.log
        missing = scene.run(*own, "--transform=SELECT 'x' AS topic FROM records", f"--transform-topics={name}-none")
        assert missing.wait() == 2, missing.log
        assert f"{name}-none of transformTopics does not exist" in missing.log
        assert scene.arrived(name) == {}
        number = "CAST(CAST(CAST(value AS STRING) AS INT) + 1 AS STRING)"
        failed = scene.run(*own, f"--transform=SELECT {number} AS value FROM records")  # noqa: S608 -- of this test
        assert failed.wait() == 2, failed.log
        assert f"The transform fails on the record {name}/1/2: CAST_INVALID_INPUT" in failed.log
        assert "three" not in failed.log
    useless = scene.run(f"--topics={name}", "--once", "--transform-topics=a")
    assert useless.wait() == 2, useless.log
    assert "transformTopics has no effect without transform" in useless.log


def test_an_evaluation_whose_java_has_ended_ends_and_says_so(socket: Path) -> None:
    with evaluating(socket) as evaluation:
        wait_until(socket.is_socket, what="the socket")
        assert evaluation.poll() is None
        (java,) = children_of(evaluation)
        os.kill(java, signal.SIGSTOP)
        with Client(str(socket)) as worker:  # Java never answers what its statement asks
            worker.send_bytes(encode_statement("SELECT value FROM records"))
            time.sleep(1)
            os.kill(java, signal.SIGKILL)
        assert evaluation.wait(HANGING_SECONDS) == 2
    log = socket.with_suffix(".log").read_text(encoding="utf-8")
    assert "gapless: Java has ended, probably because the machine or the container is out of memory" in log
    assert "Traceback" not in log
    assert not socket.exists()


def test_a_socket_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    for place in (long, tmp_path / "none" / "s"):
        with evaluating(place, tmp_path / "log") as evaluation:
            assert evaluation.wait(HANGING_SECONDS) == 2
        log = (tmp_path / "log").read_text(encoding="utf-8")
        assert f"The socket {place} cannot be created" in log


def test_records_that_the_target_refuses_after_sql_are_found_and_parked(
    scene: Scene, topic: TopicFactory, socket: Path
) -> None:
    name, parking = topic(1), f"{scene.name}-parked"
    scene.target.create_topic(name, 1, max_message_bytes="2000")
    scene.source.produce(name, [b"%d" % number if number not in {17, 40} else b"x" * 100 for number in range(60)])
    grown = (
        "SELECT CASE WHEN offset IN (17, 40) THEN lpad(CAST(value AS STRING), 5000, 'x') ELSE value END AS value "
        "FROM records WHERE offset % 10 <> 3"
    )
    with evaluating(socket):
        run = scene.run(
            f"--topics={name}",
            "--once",
            "--compression=none",
            f"--transform={grown}",
            f"--transform-socket={socket}",
            "--on-bad-record=park",
            f"--parking-topic={parking}",
        )
    assert run.wait() == 4, run.log
    kept = [number for number in range(60) if number % 10 != 3 and number not in {17, 40}]
    assert [row.value for row in scene.arrived(name)[0]] == [b"%d" % number for number in kept]
    parked = scene.arrived(parking)[0]
    assert [row.value for row in parked] == [b"x" * 5000] * 2
    assert all(row.headers[-1][0] == "gapless-parked" for row in parked)
