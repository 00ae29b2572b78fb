"""The proof that a restore which follows writes new segments, waits for late ones, and gives up as it is told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.exit_codes import ExitCode
from gapless_api.wire.restore_progress import RESTORE_LINE
from integration.restore.conftest import content
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

GAPLESS = str(Path(sys.executable).parent / "gapless")


@contextmanager
def following(kafka: KafkaBroker, place: Path, source: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A restore of `source` that follows; it is killed at the end of the block if it still runs."""
    given = [f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--topics={source}", "--engine=local"]
    command = [GAPLESS, "restore", *given, f"--to-topic={source}-back", "--follow", "--follow-interval=0.3", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def write(kafka: KafkaBroker, topic: str, first: int, end: int) -> None:
    kafka.produce(topic, [str(number).encode() for number in range(first, end)])


def await_values(kafka: KafkaBroker, topic: str, expected: list[int]) -> None:
    def there() -> bool:
        known = kafka.admin().list_topics(timeout=10).topics
        return topic in known and [int(row.value or b"") for row in content(kafka, topic)] == expected

    wait_until(there, what=f"{len(expected)} records in {topic}")


def test_new_segments_are_written_and_late_ones_waited_for(
    kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None], place: Path
) -> None:
    source = topic(retention_ms="-1")
    write(kafka, source, 0, 10)
    archived(source)
    with following(kafka, place, source, "--lost-segment-timeout=5m") as process:
        await_values(kafka, f"{source}-back", list(range(10)))
        write(kafka, source, 10, 20)
        archived(source)
        await_values(kafka, f"{source}-back", list(range(20)))
        # A store may show a commit before the object that it names.
        before = set(place.glob(f"site-a/{source}/*/level-0/*.parquet"))
        hidden = place.parent / "late.parquet"
        process.send_signal(signal.SIGSTOP)
        write(kafka, source, 20, 30)
        archived(source)
        (late,) = set(place.glob(f"site-a/{source}/*/level-0/*.parquet")) - before
        late.rename(hidden)
        write(kafka, source, 30, 40)
        archived(source)
        process.send_signal(signal.SIGCONT)
        assert process.stderr is not None
        wait_until(lambda: "late or damaged" in process.stderr.readline(), what="a warning")  # type: ignore[union-attr]
        await_values(kafka, f"{source}-back", list(range(20)))
        late.parent.mkdir(parents=True, exist_ok=True)
        hidden.rename(late)
        await_values(kafka, f"{source}-back", list(range(40)))
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert process.returncode == ExitCode.TERMINATED
    assert "Stopped by SIGTERM" in error


def test_a_topic_that_is_not_archived_yet_is_waited_for_and_the_others_are_written(
    kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None], place: Path
) -> None:
    first, later = topic(retention_ms="-1"), topic(retention_ms="-1")
    (place / "site-a").mkdir(parents=True)
    mapped = [f"--source=site-a/{later}={later}-back", f"--source=site-a/{later}-other*"]
    with following(kafka, place, first, *mapped) as process:
        assert process.stderr is not None
        wait_until(lambda: "archive has nothing of" in process.stderr.readline(), what="a warning")  # type: ignore[union-attr]
        write(kafka, first, 0, 10)
        archived(first)
        await_values(kafka, f"{first}-back", list(range(10)))
        write(kafka, later, 0, 5)
        archived(later)
        await_values(kafka, f"{later}-back", list(range(5)))
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert process.returncode == ExitCode.TERMINATED, error
    lines = [RESTORE_LINE.from_json(json.loads(line)) for line in error.splitlines() if '"restore-progress"' in line]
    assert lines[-1].waits_for == (f"site-a/{later}-other*",)


def test_a_restore_that_does_not_follow_refuses_a_topic_that_is_not_archived(
    kafka: KafkaBroker, topic: TopicFactory, place: Path
) -> None:
    (place / "site-a").mkdir(parents=True)
    source = topic()
    for more in ([], ["--plan", "--follow"]):
        given = [f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", "--region=site-a", *more]
        ended = subprocess.run(
            [GAPLESS, "restore", f"--topics={source}", *given], capture_output=True, text=True, check=False
        )
        assert ended.returncode == ExitCode.BAD_CONFIGURATION, ended.stderr
        assert f"has no topic {source} in the region site-a; correct the name" in ended.stderr


def test_a_partition_with_a_refused_record_waits_until_the_target_accepts_it(
    kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None], place: Path
) -> None:
    source = topic(2, retention_ms="-1")
    kafka.create_topic(f"{source}-back", 2, max_message_bytes="3000")
    kafka.produce(source, [b"1", b"0" * 20_000, b"3"], partition=0)
    kafka.produce(source, [b"1"], partition=1)
    archived(source)
    with following(kafka, place, source, "--compression=none") as process:
        assert process.stderr is not None
        lines = process.stderr
        wait_until(lambda: "partition waits" in lines.readline(), what="the message")
        kafka.produce(source, [b"2"], partition=1)
        archived(source)
        wait_until(
            lambda: [row.value for row in content(kafka, f"{source}-back", 1)] == [b"1", b"2"],
            what="the other partition",
        )
        assert [row.value for row in content(kafka, f"{source}-back")] == [b"1"]
        kafka.alter_topic(f"{source}-back", max_message_bytes="100000")
        wait_until(
            lambda: content(kafka, f"{source}-back") == content(kafka, source),
            what="the partition with the refused record",
        )
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert process.returncode == ExitCode.TERMINATED, error


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_what_does_not_come_is_given_up_as_the_setting_says(
    kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None], place: Path, policy: str
) -> None:
    source = topic(retention_ms="-1")
    for part in range(3):
        write(kafka, source, 10 * part, 10 * part + 10)
        archived(source)
    objects = sorted(place.glob(f"site-a/{source}/*/level-0/*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    objects[1].unlink()
    patience = ("--lost-segment-timeout=3s", "--late-segment-retries=2", f"--on-lost={policy}")
    with following(kafka, place, source, *patience) as process:
        if policy == "skip":
            await_values(kafka, f"{source}-back", [*range(10), *range(20, 30)])
            return
        _, error = process.communicate(timeout=90)
    assert process.returncode == ExitCode.INCOMPLETE
    assert f"Offset 10 of partition 0 of site-a/{source} did not arrive within 3 s" in error
    assert objects[1].name in error
    assert [int(row.value or b"") for row in content(kafka, f"{source}-back")] == list(range(10))


def test_a_generation_is_followed_to_its_end_and_not_replaced_by_a_newer_one(
    kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None], place: Path
) -> None:
    source = topic(retention_ms="-1")
    write(kafka, source, 0, 10)
    archived(source)
    with following(kafka, place, source) as process:
        await_values(kafka, f"{source}-back", list(range(10)))
        process.send_signal(signal.SIGSTOP)
        write(kafka, source, 10, 15)
        archived(source)
        kafka.delete_topic(source)
        kafka.create_topic(source, 1, retention_ms="-1")
        write(kafka, source, 100, 105)
        archived(source)
        process.send_signal(signal.SIGCONT)
        _, error = process.communicate(timeout=90)
    assert process.returncode == ExitCode.INCOMPLETE, error
    assert "it was deleted and recreated (topic ID" in error
    old = [*range(10), *range(10, 15)]
    assert [int(row.value or b"") for row in content(kafka, f"{source}-back")] == old
    with following(kafka, place, source) as process:  # another run continues the same work, not another generation
        _, again = process.communicate(timeout=90)
    assert process.returncode == ExitCode.INCOMPLETE, again
    assert "it was deleted and recreated (topic ID" in again
    assert [int(row.value or b"") for row in content(kafka, f"{source}-back")] == old
