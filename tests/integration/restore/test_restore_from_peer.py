"""The proof that what kafka-replicator has archived is restored, resent and compared like our own segments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.restore.conftest import Gapless, Row, content
from kit.story.peer_segments import ZERO_TIME, write_peer_segment
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NOW = 1_760_000_000_000


def record(number: int) -> dict[str, Any]:
    return {
        "key": b"key %d" % (number % 3),
        "value": b"" if number % 5 == 0 else b"value %d" % number,
        "timestamp": ZERO_TIME if number % 7 == 0 else (NOW + number) * 1_000_000,
        "headers": [{"key": b"h", "value": b"%d" % n} for n in range(number % 3)],
    }


def as_row(number: int) -> Row:
    stored = record(number)
    headers = tuple((one["key"].decode(), one["value"]) for one in stored["headers"])
    return Row(None if number % 7 == 0 else NOW + number, stored["key"], stored["value"], headers)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_its_segments_are_restored_and_compared(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    source, target = topic(1), topic(2, retention_ms="-1")
    records = {number: record(number) for number in range(100)}
    for first, end, level, partition in ((0, 40, 0, 0), (30, 60, 0, 0), (20, 50, 1, 0), (60, 100, 0, 0), (5, 30, 0, 1)):
        write_peer_segment(
            place, range(first, end), records=records, level=level, partition=partition, region="site-b", topic=source
        )
    ended = gapless("restore", f"--topics={source}", f"--to-topic={target}", f"--engine={engine}")
    assert ended.code == 0, ended.err
    assert "its segments were written by kafka-replicator, which stores null as empty" in ended.err
    assert content(kafka, target, 0) == [as_row(number) for number in range(100)]
    assert content(kafka, target, 1) == [as_row(number) for number in range(5, 30)]
    again = gapless("restore", f"--topics={source}", f"--to-topic={target}", f"--engine={engine}")
    assert (again.code, again.report["records"]) == (0, 0)
    addresses = (f"kafka://{kafka.bootstrap}/{target}", f"{place}#{source}")
    compared = subprocess.run(
        [str(PROGRAM), "verify-copy", *addresses, "--engine=local"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert compared.returncode == 0, compared.stderr
    assert "its segments were written by kafka-replicator" in compared.stderr


def test_a_time_range_is_found_although_no_manifest_says_when_records_were_made(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source, target = topic(1), topic(1, retention_ms="-1")
    records = {number: record(number) for number in range(30)}
    write_peer_segment(place, range(15), records=records, topic=source)
    write_peer_segment(place, range(15, 30), records=records, topic=source)
    ended = gapless(
        "restore",
        f"--topics={source}",
        f"--to-topic={target}",
        "--engine=local",
        "--since=2025-10-09T08:53:20.010Z",
        "--until=2025-10-09T08:53:20.020Z",
    )
    assert ended.code == 0, ended.err
    assert content(kafka, target) == [as_row(number) for number in range(10, 20) if number % 7]


def test_a_wrong_footer_stops_the_restore_and_names_the_object(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source, target = topic(1), topic(1, retention_ms="-1")
    write_peer_segment(place, range(5), topic=source)
    key = write_peer_segment(place, range(5, 9), topic=source, footer={"region": "elsewhere"})
    ended = gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert ended.code == 4, ended.err
    assert key in json.dumps(ended.report) + ended.err
    assert "its footer names region elsewhere, its key r" in json.dumps(ended.report) + ended.err
    assert len(content(kafka, target)) == 5
