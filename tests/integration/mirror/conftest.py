"""Running ``gapless mirror`` between two real clusters, and reading the records of both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kit.kafka.broker import KafkaBroker
from kit.machine.processes import HANGING_SECONDS, wait_until
from kit.machine.spark_java import SparkJava, borrow, give_back, lent
from kit.story.commands import GAPLESS as COMMANDS

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster
    from kit.kafka.shared_broker import SharedBroker

GAPLESS = Path(sys.executable).parent / "gapless"
INTERRUPTED = Path(__file__).parent / "interrupted_mirror.py"
FAULTY = Path(__file__).parent / "faulty_mirror.py"

RECORDS = [b"%d" % number for number in range(500)]
"""The records that `fill` writes to each partition."""


class Row(NamedTuple):
    """A record without its offset."""

    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Mirror:
    """A running ``gapless mirror``."""

    def __init__(self, folder: Path, arguments: list[str], program: list[str], java: SparkJava | None = None) -> None:
        self._java = java
        self.report_file = folder / f"report-{len(list(folder.iterdir()))}.json"
        self.log_file = self.report_file.with_suffix(".log")
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "mirror", f"--report={self.report_file}", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **(java.environment if java is not None else {})},
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def report(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.report_file.read_text())
        return content

    def wait(self, timeout_seconds: float = HANGING_SECONDS) -> int:
        """Wait for the exit code."""
        code = self.process.wait(timeout_seconds)
        java, self._java = self._java, None
        give_back(java)
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it gracefully; return the exit code."""
        self.process.send_signal(number)
        return self.wait(40)

    def end_with_stacks(self) -> str:
        """End it and its workers; return the end of the log, with the stack of each thread."""
        for pid in [*self.workers(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        self.wait(10)
        return self.log[-12000:]

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.wait(10)

    def workers(self) -> list[int]:
        """Return the IDs of its worker processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text()]


class EndedMirror(NamedTuple):
    """A ``gapless mirror`` that has ended."""

    exit_code: int
    log: str
    """Its output, and then its messages."""
    report_file: Path

    @property
    def report(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.report_file.read_text())
        return content

    def wait(self) -> int:
        """Return the exit code, as of one that runs."""
        return self.exit_code


class Scene:
    """Two clusters and the mirrors between them."""

    def __init__(self, source: KafkaBroker, target: KafkaCluster, folder: Path) -> None:
        self.source, self.target, self._folder = source, target, folder
        self._running: list[Mirror] = []
        self.name = f"m{os.getpid()}-{folder.name}".lower().replace("_", "-")[:50].strip("-.")

    def start(
        self, *arguments: str, interrupted: tuple[str, int] | None = None, defect: str = "", own_java: bool = False
    ) -> Mirror:
        """Start ``gapless mirror`` with a name for this test.

        Args:
            arguments: more of them.
            interrupted: by which signal it is stopped, before which commit.
            defect: that it has; see `faulty_mirror`.
            own_java: whether it starts Java for Spark as it does outside of tests.
        """
        program = [str(GAPLESS)]
        java = None if defect or interrupted or own_java else borrow(arguments)
        if defect:
            program = [sys.executable, str(FAULTY), defect]
        if interrupted is not None:
            program = [sys.executable, str(INTERRUPTED), interrupted[0], str(interrupted[1])]
        mirror = Mirror(self._folder, self._own(arguments), program, java)
        self._running.append(mirror)
        return mirror

    def _own(self, arguments: Sequence[str]) -> list[str]:
        return [
            f"--source-bootstrap-servers={self.source.bootstrap}",
            f"--target-bootstrap-servers={self.target.bootstrap}",
            f"--name={self.name}",
            *arguments,
        ]

    def run(self, *arguments: str) -> EndedMirror:
        """Run it as a fork of a process with its modules, and wait for its end."""
        report = self._folder / f"report-{len(list(self._folder.iterdir()))}.json"
        command = ("mirror", f"--report={report}", *self._own(arguments))
        with lent(command) as java:
            ended = COMMANDS.run(*command, env={**os.environ, **java}, timeout_seconds=HANGING_SECONDS)
        return EndedMirror(ended.returncode, ended.stdout + ended.stderr, report)

    def close(self) -> None:
        for mirror in self._running:
            mirror.kill()

    def copied(self, topic: str, target: str = "") -> bool:
        """Whether the committed records of both topics are equal, in the same order."""
        return rows(self.source, topic) == rows(self.target, target or topic)

    def arrived(self, topic: str) -> dict[int, list[Row]]:
        """Return all committed records of a topic in the target, by partition in offset order."""
        return rows(self.target, topic)

    def wait_for(self, topic: str, records: int) -> None:
        """Wait until a topic in the target has `records` committed records."""

        def has_records() -> bool:
            if topic not in self.target.admin().list_topics(timeout=10).topics:
                return False
            return sum(map(len, rows(self.target, topic).values())) >= records

        wait_until(has_records, what=f"{records} records of {topic} in the target")


def fill(scene: Scene, name: str, partitions: int) -> None:
    """Write `RECORDS` to each partition of a topic of the source."""
    for partition in range(partitions):
        scene.source.produce(name, RECORDS, partition=partition)


def await_interruption(mirror: Mirror) -> None:
    """Wait until a mirror with `interrupted` stops."""
    wait_until(lambda: "interrupted" in mirror.log, what="the interruption")


def rows(kafka: KafkaCluster, topic: str) -> dict[int, list[Row]]:
    """Return all committed records of a topic, by partition in offset order."""
    by_partition: dict[int, list[Row]] = {}
    for message in kafka.read(topic):
        kind, time = message.timestamp()
        headers: Any = message.headers() or ()
        parts: Any = (message.key(), message.value())
        row = Row(time if kind and time >= 0 else None, *parts, tuple(headers))
        by_partition.setdefault(message.partition() or 0, []).append(row)
    return by_partition


@pytest.fixture(scope="session")
def target_kafka(shared_broker: Callable[[str], SharedBroker]) -> KafkaBroker:
    """The cluster that mirrors write to, shared by all tests of the run."""
    return shared_broker("target")


@pytest.fixture(scope="module")
def own_target() -> Iterator[KafkaBroker]:
    """A target for a file whose mirrors in the opposite direction look at every mirror of it."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def scene(kafka: KafkaBroker, target_kafka: KafkaCluster, tmp_path: Path) -> Iterator[Scene]:
    clusters = Scene(kafka, target_kafka, tmp_path)
    yield clusters
    clusters.close()
