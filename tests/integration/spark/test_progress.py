"""The proof that long scans, audits and verifications show how far they are, whatever reads for them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from gapless_api.cli import reading_progress
from gapless_kafka.reading import reader
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_spark.runtime.spark_progress import SparkReading
from integration.spark.test_audit import receive

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Ended, Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show also what takes less than two seconds, and read in small steps."""
    monkeypatch.setattr(reading_progress, "SHOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(reader, "_BATCH_SIZE", 100)


def shown(ended: Ended) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in ended.err.splitlines() if line.startswith('{"event":"reading-progress"')]
    assert lines, ended.err
    return lines


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_audit_says_how_far_it_has_read(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, engine: str
) -> None:
    name = topic(2)
    amount = 2000
    for number in (0, 1):
        receive(kafka, name, [f"t_{number}_{offset}" for offset in range(amount)], number)
    ended = gapless(
        "audit",
        f"--bootstrap-servers={kafka.bootstrap}",
        f"--topics={name}",
        f"--engine={engine}",
        "--progress-interval=0.000001",
        "--parallelism=8",
    )
    assert ended.code == 0, ended.err
    lines = shown(ended)
    assert {(line["command"], line["offsets"]) for line in lines} == {("audit", 2 * amount)}
    read = [line["read"] for line in lines]
    assert read == sorted(read)
    assert read[-1] == lines[0]["offsets"]
    if engine == "local":
        assert any(0 < one < 2 * amount for one in read), "it is told while it reads"
    quiet = gapless(
        "audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}", "--engine=local", "--progress-interval=0"
    )
    assert "reading-progress" not in quiet.err


def test_a_verification_says_how_far_it_has_read(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name = topic()
    receive(kafka, name, [f"t_0_{offset}" for offset in range(1000) if offset != 7])
    where = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}", "--engine=local")
    (tmp_path / "older.json").write_text(json.dumps(gapless("audit", *where).bundle))
    ended = gapless("verify", str(tmp_path / "older.json"), *where, "--progress-interval=0.000001")
    assert ended.code == 4
    assert {line["command"] for line in shown(ended)} == {"verify"}


def test_what_spark_has_read_grows_with_its_tasks(spark: None, tmp_path: Path) -> None:  # noqa: ARG001 -- is found
    session = SparkSession.getActiveSession()
    assert session is not None
    goes_on = tmp_path / "goes-on"

    def work(number: int) -> int:
        while number >= 2 and not goes_on.exists():
            time.sleep(0.02)
        return number

    def watch(expected: int) -> None:
        seen = [0]
        while seen[-1] < expected:
            seen.append(reading.offsets_read())
            time.sleep(0.02)
        assert seen == sorted(seen)
        assert seen[-1] == expected

    reading = SparkReading(Cut("c", (TopicCut("t", (0,), (1000,), 0),)))
    assert reading.offsets_read() == 0, "Spark has not started"
    reading.begin(session)
    assert reading.offsets_read() == 0, "no job runs"
    job = threading.Thread(target=lambda: session.sparkContext.parallelize(range(4), 4).map(work).count())
    job.start()
    try:
        watch(500)
    finally:
        goes_on.touch()
        job.join()
    assert reading.offsets_read() == 500, "what was known, when no job runs any more"
