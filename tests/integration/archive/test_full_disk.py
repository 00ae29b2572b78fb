"""The proof that a full disk ends archive, compact and restore with a sentence, and loses and repeats nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from gapless_api.cli import main
from integration.archive.conftest import REGION, archived, commits, in_kafka
from kit.machine.processes import end, start_bound, wait_until
from kit.machine.small_disk import full, small_disk
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


class Gapless(Protocol):
    """Runs ``gapless`` in this process; returns exit code and the last line of standard error."""

    def __call__(self, *arguments: str) -> tuple[object, str]: ...


NO_ROOM = "cannot be written (No space left on device); free disk space, or choose another location"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "8m") as disk:
        yield disk / "archive"


@pytest.fixture
def gapless(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Gapless:
    def run(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, (capfd.readouterr().err.splitlines() or [""])[-1]

    return run


def values(count: int) -> list[bytes | None]:
    return [random.Random(number).randbytes(2000) for number in range(count)]


def test_a_program_that_archives_ends_and_the_next_one_continues(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, gapless: Gapless
) -> None:
    orders = topic()
    archive = [
        "archive", f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--region={REGION}",
        f"--topics={orders}", "--engine=local",
    ]  # fmt: skip
    kafka.produce(orders, values(100))
    running = start_bound(
        [PROGRAM, *archive, "--trigger-interval=0.2", "--max-segment-age=0s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: len(commits(place, orders)) > 1, what="the first commit")
        with full(place.parent):
            kafka.produce(orders, values(100))
            _, err = running.communicate(timeout=60)
    finally:
        end(running)
    assert running.returncode == 2, err
    assert NO_ROOM in err.decode().splitlines()[-1]
    assert archived(place, orders) == in_kafka(kafka, orders)[:100]
    assert not [*(place / ".scratch").iterdir(), *place.rglob("*.tmp")]
    named = {segment["object"] for commit in commits(place, orders) for segment in commit["added"]}
    assert {str(file.relative_to(place)) for file in place.rglob("*.parquet")} == named
    assert gapless(*archive, "--once")[0] == 0
    assert archived(place, orders) == in_kafka(kafka, orders)


def test_compaction_and_the_report_of_a_restore_end_and_continue(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, gapless: Gapless
) -> None:
    orders, copy = topic(), topic()
    there = [f"--archive={place}", f"--topics={orders}", "--engine=local"]
    to_kafka = f"--bootstrap-servers={kafka.bootstrap}"
    for _ in range(2):
        kafka.produce(orders, values(100))
        assert gapless("archive", to_kafka, *there, f"--region={REGION}", "--once")[0] == 0
    compact = ("compact", *there, "--min-segment-age=0", "--min-segment-size=0", "--min-segment-count=2")
    before = sorted(str(file) for file in place.rglob("*.parquet"))
    with full(place.parent):
        code, said = gapless(*compact)
        assert (code, said.startswith("gapless: "), "No space left on device" in said) == (2, True, True), said
        assert sorted(str(file) for file in place.rglob("*.parquet")) == before
        assert archived(place, orders) == in_kafka(kafka, orders)

        report = place.parent / "report.json"
        restore = ("restore", to_kafka, *there, f"--to-topic={copy}")
        code, said = gapless(*restore, f"--report={report}")
        assert (code, "No space left on device" in said, report.exists()) == (2, True, False), said
    assert gapless(*compact)[0] == 0
    assert gapless(*restore, f"--report={report}")[0] == 0
    assert report.exists()
    code, said = gapless("verify-copy", f"{place}#{orders}", f"kafka://{kafka.bootstrap}/{copy}", "--engine=local")
    assert code == 0, said
