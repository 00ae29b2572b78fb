"""The proof that a restore which is killed, stopped or doubled loses nothing and writes nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from gapless_api.base.exit_codes import ExitCode
from integration.restore.conftest import Gapless, content
from kit.kafka.transactions import write_transactions
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

GAPLESS = str(Path(sys.executable).parent / "gapless")
KILLED = Path(__file__).with_name("killed_restore.py")


@pytest.fixture
def source(kafka: KafkaBroker, topic: TopicFactory, archived: Callable[..., None]) -> str:
    """An archived topic with two partitions of 40 records, and transactions."""
    name = topic(2)
    for partition in (0, 1):
        kafka.produce(name, [f"{partition}-{number}".encode() for number in range(40)], partition=partition)
    write_transactions(kafka, name, True, False, True)
    archived(name)
    return name


def arguments(kafka: KafkaBroker, place: Path, source: str, *more: str) -> list[str]:
    return [
        "restore",
        f"--bootstrap-servers={kafka.bootstrap}",
        f"--archive={place}",
        f"--topics={source}",
        f"--to-topic={source}-back",
        "--batch-size=9",
        "--engine=local",
        *more,
    ]


def killed(step: str, number: int, given: list[str]) -> None:
    """Run a restore that dies at a step."""
    command = [sys.executable, str(KILLED), step, str(number), *given]
    ended = subprocess.run(command, timeout=120, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.parametrize(
    ("step", "number"),
    [("produce", 2), ("flush", 3), ("flush", 4), ("position", 3), ("position", 4), ("commit", 3), ("after-commit", 4)],
)
def test_a_kill_at_any_step_loses_nothing_and_repeats_nothing(  # noqa: PLR0917
    kafka: KafkaBroker, place: Path, source: str, gapless: Gapless, step: str, number: int
) -> None:
    given = arguments(kafka, place, source)
    killed(step, number, given)
    before = sum(len(content(kafka, f"{source}-back", partition)) for partition in (0, 1))
    all_of_it = sum(len(content(kafka, source, partition)) for partition in (0, 1))
    assert before < all_of_it
    ended = gapless("restore", *given[3:])
    assert ended.code == 0, ended.err
    for partition in (0, 1):
        assert content(kafka, f"{source}-back", partition) == content(kafka, source, partition)
    assert ended.report["records"] == all_of_it - before


def test_several_kills_one_after_the_other(kafka: KafkaBroker, place: Path, source: str, gapless: Gapless) -> None:
    given = arguments(kafka, place, source)
    for step, number in (("commit", 2), ("position", 1), ("after-commit", 1), ("flush", 2)):
        killed(step, number, given)
    ended = gapless("restore", *given[3:])
    assert ended.code == 0, ended.err
    for partition in (0, 1):
        assert content(kafka, f"{source}-back", partition) == content(kafka, source, partition)


def test_without_transactions_a_kill_repeats_one_batch_at_most(
    kafka: KafkaBroker, place: Path, source: str, gapless: Gapless
) -> None:
    given = arguments(kafka, place, source, "--delivery=at-least-once")
    killed("position", 3, given)
    ended = gapless("restore", *given[3:])
    assert ended.code == 0, ended.err
    for partition in (0, 1):
        expected, found = content(kafka, source, partition), content(kafka, f"{source}-back", partition)
        repeated = [expected[:end] + expected[end - size :] for end in range(len(expected) + 1) for size in range(10)]
        assert found in repeated


def test_a_second_run_takes_over_and_the_first_one_ends_with_a_sentence(
    kafka: KafkaBroker, place: Path, source: str, gapless: Gapless
) -> None:
    given = arguments(kafka, place, source)
    with subprocess.Popen(
        [sys.executable, str(KILLED), "pause", "3", *given], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "paused" in line:
                break
        ended = gapless("restore", *given[3:])
        first.send_signal(signal.SIGCONT)
        _, error = first.communicate(timeout=120)
    assert ended.code == 0, ended.err
    assert "Another run of the same work has started" in error, error
    assert first.returncode == ExitCode.BAD_CONFIGURATION
    for partition in (0, 1):
        assert content(kafka, f"{source}-back", partition) == content(kafka, source, partition)


def test_a_signal_ends_it_in_order_and_tells_how_far_it_is(
    kafka: KafkaBroker, place: Path, source: str, gapless: Gapless
) -> None:
    given = arguments(kafka, place, source)
    with subprocess.Popen(
        [sys.executable, str(KILLED), "pause", "3", *given], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "paused" in line:
                break
        first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGCONT)
        _, error = first.communicate(timeout=120)
    assert first.returncode == ExitCode.TERMINATED, error
    assert "Stopped by SIGTERM; the target holds 18 records of this restore. Run the same command again" in error
    # What was not committed is aborted: nobody waits for it.
    assert sum(len(content(kafka, f"{source}-back", partition)) for partition in (0, 1)) == 18
    ended = gapless("restore", *given[3:])
    assert ended.code == 0, ended.err
    for partition in (0, 1):
        assert content(kafka, f"{source}-back", partition) == content(kafka, source, partition)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_tasks_of_spark_that_end_in_the_middle_repeat_nothing(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    archived: Callable[..., None],
    place: Path,
    gapless: Gapless,
    by: signal.Signals,
) -> None:
    """At a random moment of the writing, with all processes that Spark has started."""
    source = topic(3, retention_ms="-1")
    for partition in range(3):
        kafka.produce(source, [b"%d" % number for number in range(6000)], partition=partition)
    archived(source)
    target = topic(3, retention_ms="-1")
    more = (f"--to-topic={target}", "--engine=spark", "--batch-size=20", "--parallelism=2")
    given = [GAPLESS, *arguments(kafka, place, source, *more)]
    shell = ["env", "--default-signal=INT"]  # what a shell starts in the background ignores it
    with subprocess.Popen(
        [*shell, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as first:

        def has_begun() -> bool:
            with suppress(KafkaException):  # a new topic's leader may be on its way still
                return sum(high for _, high in kafka.watermarks(target).values()) > 500
            return False

        wait_until(has_begun, what="the first records")
        if by is signal.SIGKILL:
            os.killpg(first.pid, signal.SIGKILL)
        else:
            first.send_signal(by)
        _, error = first.communicate(timeout=120)
    if by is not signal.SIGKILL:
        assert first.returncode == (ExitCode.TERMINATED if by is signal.SIGTERM else ExitCode.INTERRUPTED), error
        assert f"Stopped by {by.name}; the target holds" in error
    left = gapless("restore", *given[4:], "--engine=local", "--batch-size=5000")
    assert left.code == 0, left.err
    for partition in range(3):
        assert content(kafka, target, partition) == content(kafka, source, partition)
    assert 0 < left.report["records"] < 18_000, "it was stopped in the middle"
