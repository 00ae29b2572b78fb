"""The proof that ``gapless archive`` runs on: what is due is archived, and what ends it is told."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from gapless_api.wire.archive_progress import ARCHIVE_LINE
from integration.archive.conftest import REGION, archived, commits, fill_compressed, in_kafka
from kit.kafka.broker import KafkaBroker
from kit.kafka.damage import damage
from kit.machine.processes import end, free_ports, start_bound, wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory

    class Start(Protocol):
        """Starts ``gapless archive``."""

        def __call__(self, *arguments: str) -> subprocess.Popen[bytes]: ...


pytestmark = pytest.mark.integration


@pytest.fixture
def start(kafka: KafkaBroker, place: Path, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        program = (
            "import gapless_spark.archiving.archive.continuous as m\nm._FIND_TOPICS_SECONDS = 0.5\n"
            "import gapless_spark.archiving.archive.stops as s\ns._FIRST_PAUSE_SECONDS = 0.5\n"
            "from gapless_api.cli.main import main\nmain()"
        )
        given = [
            f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--region={REGION}",
            "--trigger-interval=0.2", "--engine=local", f"--log-file-name={tmp_path / 'log'}",
        ]  # fmt: skip
        command = [sys.executable, "-c", program, "archive", *given, *arguments]
        running.append(start_bound(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return running[-1]

    yield begin
    for process in running:
        end(process)


def ended(process: subprocess.Popen[bytes], seconds: float = 30) -> tuple[int, str]:
    _, err = process.communicate(timeout=seconds)
    return process.returncode, err.decode()


def added(place: Path, topic: str) -> int:
    return sum(segment["records"] for commit in commits(place, topic) for segment in commit["added"])


def is_claimed(place: Path, topic: str, times: int = 1) -> bool:
    return sum(commit["action"] == "claim" for commit in commits(place, topic)) == times


def test_a_segment_is_written_when_it_is_full_or_old(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start
) -> None:
    full, old = topic(), topic()
    running = start(f"--topics={full},{old}", "--max-segment-records=10", "--max-segment-age=4s")
    wait_until(lambda: is_claimed(place, old), what="the claim")
    kafka.produce(old, [b"x"])
    begun = time.monotonic()
    kafka.produce(full, [b"x"] * 12)
    wait_until(lambda: added(place, full) == 12, what="the full segment")
    assert added(place, old) == 0 or time.monotonic() - begun > 4
    wait_until(lambda: added(place, old) == 1, what="the old segment")
    running.send_signal(signal.SIGTERM)
    code, err = ended(running)
    assert code == 143
    assert "Stopped by SIGTERM. Archived 13 records (" in err
    assert archived(place, full) == in_kafka(kafka, full)


def test_new_topics_and_partitions_are_archived_from_their_beginning(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start
) -> None:
    first = topic(prefix="grows")
    running = start("--topic-prefix=grows", "--max-segment-age=0s")
    wait_until(lambda: is_claimed(place, first), what="the claim")
    second = topic(prefix="grows")
    kafka.produce(second, [b"x"] * 3)
    kafka.add_partitions(first, 2)
    kafka.produce(first, [b"x"], partition=1)
    wait_until(lambda: added(place, second) == 3, what="the new topic")
    wait_until(lambda: added(place, first) == 1, what="the new partition")
    assert archived(place, first, 1) == in_kafka(kafka, first, 1)
    assert running.poll() is None


def test_a_named_topic_that_is_deleted_does_not_end_the_archiving_of_others(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start, tmp_path: Path
) -> None:
    gone, stays = topic(), topic()
    running = start(f"--topics={gone},{stays}", "--max-segment-age=0s")
    kafka.produce(gone, [b"x"] * 3)
    wait_until(lambda: added(place, gone) == 3, what="the topic")
    kafka.delete_topic(gone)
    wait_until(lambda: "topic deleted" in (tmp_path / "log").read_text(), what="a warning")
    time.sleep(2)  # several searches for topics
    kafka.produce(stays, [b"x"] * 5)
    wait_until(lambda: added(place, stays) == 5, what="the other topic")
    assert running.poll() is None


def test_the_program_that_began_later_goes_on_and_the_other_one_ends(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start
) -> None:
    orders = topic()
    earlier = start(f"--topics={orders}", "--max-segment-age=0s")
    wait_until(lambda: is_claimed(place, orders), what="the claim")
    kafka.produce(orders, [b"x"] * 3)
    wait_until(lambda: added(place, orders) == 3, what="the first records")
    later = start(f"--topics={orders}", "--max-segment-age=0s")
    wait_until(lambda: is_claimed(place, orders, 2), what="the second claim")
    kafka.produce(orders, [b"y"] * 4)
    code, err = ended(earlier)
    assert code == 2
    assert f"has started to archive {orders} to {place} (epoch 2 after 1); run only one at a time." in err
    wait_until(lambda: added(place, orders) == 7, what="the other records")
    assert archived(place, orders) == in_kafka(kafka, orders)
    assert later.poll() is None


def test_status_is_told_as_lines_and_metrics(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start
) -> None:
    orders = topic(2, **{"retention.ms": "3600000"})
    (port,) = free_ports(1)
    kafka.produce(orders, [b"x"] * 3)
    running = start(f"--topics={orders}", "--max-segment-age=6s", f"--metrics-port={port}", "--progress-interval=0.2")

    def sample(name: str, partition: int = 0) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        head = f'gapless_archive_{name}{{partition="{partition}",region="{REGION}",topic="{orders}"}} '
        found = [line for line in text.splitlines() if line.startswith(head)]
        return float(found[0].removeprefix(head)) if found else -1.0

    def is_served() -> bool:
        with contextlib.suppress(OSError):
            return sample("lag_records") >= 0
        return False

    told = []

    def wait_until_told(state: tuple[int, int, int]) -> None:
        assert running.stderr is not None
        for line in running.stderr:
            if ARCHIVE_LINE.event.encode() in line:
                told.append(ARCHIVE_LINE.from_json(json.loads(line)))
                if (told[-1].segments, told[-1].records, told[-1].lag_records) == state:
                    return
        pytest.fail(f"{state} was not told")

    wait_until(is_served, what="the first metrics")
    assert (sample("lag_records"), sample("lag_records", 1), sample("lag_seconds", 1)) == (3.0, 0.0, 0.0)
    wait_until_told((0, 0, 3))
    wait_until(lambda: added(place, orders) == 3, what="the first segment")
    wait_until_told((1, 3, 0))
    wait_until(lambda: sample("lag_records") == 0, what="no lag")
    kafka.produce(orders, [b"y"] * 2)
    wait_until(lambda: sample("lag_records") == 2, what="some lag")
    assert 0 <= sample("lag_seconds") < 60
    assert 3500 < sample("seconds_until_loss") <= 3600
    wait_until_told((1, 3, 2))
    wait_until(lambda: added(place, orders) == 5, what="the second segment")
    wait_until_told((2, 5, 0))
    running.send_signal(signal.SIGTERM)
    ended(running)
    assert (told[0].lag_records, told[0].last_commit, told[0].topics[0].lag_seconds) == (3, None, None)
    assert all(line.problems == () for line in told)


def test_it_waits_for_kafka_to_come_back(tmp_path: Path, place: Path) -> None:
    with KafkaBroker() as own:
        orders = own.create_topic("orders")
        command = [
            sys.executable, "-c", "from gapless_api.cli.main import main\nmain()", "archive",
            f"--bootstrap-servers={own.bootstrap}", f"--archive={place}", f"--region={REGION}", "--topics=orders",
            "--trigger-interval=0.2", "--engine=local", "--max-segment-age=0s", "--connect-timeout=2",
            f"--log-file-name={tmp_path / 'log'}",
        ]  # fmt: skip
        running = start_bound(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            own.produce(orders, [b"x"] * 3)
            wait_until(lambda: added(place, orders) == 3, what="the first records")
            own.stop()
            log = tmp_path / "log"
            wait_until(lambda: "archiving pauses" in log.read_text(), what="the pause")
            own.restart()
            own.produce(orders, [b"y"] * 2)
            wait_until(lambda: added(place, orders) == 5, what="the records after the pause")
        finally:
            end(running)
        pauses = [json.loads(line) for line in log.read_text().splitlines() if "archiving pauses" in line]
        assert all("cannot be reached" in line["reason"] for line in pauses)


def test_a_partition_that_stops_is_reported_and_tried_again(
    kafka: KafkaBroker, topic: TopicFactory, place: Path, start: Start
) -> None:
    orders, other = topic(), topic()
    fill_compressed(kafka, orders, 0, 3)
    kafka.produce(other, [b"x"] * 4)
    before = in_kafka(kafka, orders)
    mend = damage(kafka, orders, 0, batch_at=5)
    running = start(f"--topics={orders},{other}", "--max-segment-age=0s", "--progress-interval=0.2")
    wait_until(lambda: (added(place, orders), added(place, other)) == (5, 4), what="all others")
    kafka.produce(other, [b"y"] * 4)
    wait_until(lambda: added(place, other) == 8, what="later records of the other topic")
    assert (running.poll(), archived(place, orders)) == (None, before[:5])
    mend()
    wait_until(lambda: added(place, orders) == 15, what="the records that were damaged")
    running.send_signal(signal.SIGTERM)
    code, err = ended(running)
    assert code == 143, err
    assert archived(place, orders) == before
    told = [ARCHIVE_LINE.from_json(json.loads(line)) for line in err.splitlines() if ARCHIVE_LINE.event in line]
    stalled = [problem.message for line in told for problem in line.problems if problem.reason == "NoProgress"]
    assert any(f"({orders}/0 from offset 5 on: " in message for message in stalled)
