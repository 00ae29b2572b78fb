"""The proof that ``--exit-code`` tells what is missing from what failed, also in the loop of the procedure."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

PROCEDURE = Path(__file__).parents[3] / "docs" / "procedures" / "close-a-gap.md"
LOCAL = "--engine=local"


def receive(kafka: KafkaBroker, topic: str, *offsets: int) -> None:
    kafka.produce(topic, [b"event"] * len(offsets), keys=[f"t_0_{offset}".encode() for offset in offsets])


@pytest.fixture
def received(kafka: KafkaBroker, topic: TopicFactory) -> str:
    """A topic without the events 2 and 3."""
    name = topic()
    receive(kafka, name, 0, 1, 4, 5)
    return name


def test_an_audit_and_a_verification_end_with_10_if_something_is_missing(
    kafka: KafkaBroker, received: str, tmp_path: Path
) -> None:
    bundle, report = tmp_path / "bundle.json", tmp_path / "report.json"
    servers = f"--bootstrap-servers={kafka.bootstrap}"

    def run(command: str, *more: str) -> tuple[int, str, int]:
        files = ("--resend-file-name", str(bundle)) if command == "audit" else ()
        ended = GAPLESS.run(
            command, *more, servers, f"--topics={received}", LOCAL, f"--report={report}", "--expect=t:0:0-5", *files
        )
        return ended.returncode, ended.stdout + ended.stderr, json.loads(report.read_text())["exit_code"]

    code, told, reported = run("audit")
    assert (code, reported) == (0, 0), told
    code, told, reported = run("audit", "--exit-code")
    assert (code, reported) == (10, 10), told
    assert "2 events are missing" in told
    old = tmp_path / "old.json"
    bundle.rename(old)
    assert run("verify", str(old))[::2] == (4, 4)
    code, told, reported = run("verify", str(old), "--exit-code")
    assert (code, reported) == (10, 10)
    assert told.count("Of 2 offsets of the older bundle still open: 2.") == 1
    begun = in_transaction(kafka, received, [("t_0_2", b"x")])
    assert run("audit", "--exit-code")[::2] == (4, 4)  # what is unknown is no result
    assert run("verify", str(old), "--exit-code")[::2] == (4, 4)
    end_transaction(begun, commit=True)
    assert run("audit", "--exit-code")[::2] == (10, 10)
    receive(kafka, received, 3)
    assert run("audit", "--exit-code")[::2] == (0, 0)
    assert run("verify", str(old), "--exit-code")[::2] == (0, 0)


def test_a_scan_ends_with_10_if_something_is_missing(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> None:
    gaps = topic(cleanup_policy="compact")
    settings = [f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}", LOCAL]
    settings.append(f"--resend-file-name={tmp_path / 'bundle.json'}")
    assert GAPLESS.run("scan", *settings, "--exit-code").returncode == 0
    value = {"topic": "t", "partition": 0, "window_min": 0, "window_max": 9, "gaps": [[2, 3]]}
    kafka.produce(gaps, [json.dumps(value).encode()], keys=[b"t_0:0"])
    assert GAPLESS.run("scan", *settings).returncode == 0
    found = GAPLESS.run("scan", *settings, "--exit-code")
    assert found.returncode == 10, found.stderr
    assert GAPLESS.run("scan", *settings, "--exit-code", f"--topic={gaps}-no").returncode == 2


def loop(kafka: KafkaBroker, received: str, rounds: int, *, servers: str = "") -> str:
    """The loop of the procedure, with the addresses of the test and without long pauses."""
    (found,) = re.findall(r"```sh\n(for round [^`]*--exit-code[^`]*)```", PROCEDURE.read_text(encoding="utf-8"))
    for printed, here in (
        ("kafka-down:9092", servers or kafka.bootstrap),
        ("--topics=transfer", f"--topics={received} {LOCAL} --expect=t:0:0-5 --connect-timeout=2"),
        ("seq 60", f"seq {rounds}"),
        ("sleep 60", "sleep 0.1"),
    ):
        assert found.count(printed) == 1
        found = found.replace(printed, here)
    return found


def test_the_loop_of_the_procedure_ends_when_everything_has_arrived_or_when_it_cannot_find_out(
    kafka: KafkaBroker, received: str, tmp_path: Path
) -> None:
    settings = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={received}", "--expect=t:0:0-5", LOCAL)
    bundle = tmp_path / "gaps.bundle.json"
    assert GAPLESS.run("audit", *settings, f"--resend-file-name={bundle}").returncode == 0
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}

    def start(script: str) -> subprocess.Popen[str]:
        log = (tmp_path / "log").open("w")
        with log:
            return subprocess.Popen(
                ["sh", "-c", script], cwd=tmp_path, env=environment, stdout=log, stderr=log, text=True
            )

    assert start(loop(kafka, received, 2)).wait(120) == 10
    assert (tmp_path / "log").read_text().count("still open: 2.") == 2
    assert start(loop(kafka, received, 1000, servers="127.0.0.1:1")).wait(120) == 3
    running = start(loop(kafka, received, 1000))
    wait_until(lambda: "still open" in (tmp_path / "log").read_text(), what="the first round")
    receive(kafka, received, 2, 3)
    assert running.wait(120) == 0
