"""Owns how a mirror is watched while it copies: its processes' time and memory, and how far the target reaches.

All mirrors are measured from outside and alike. What counts is what a reader of committed records can see.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kit.machine.processes import end, start_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kit.kafka.broker import KafkaBroker

_TICKS = 100
"""Of a second, in /proc."""
_LOOK_SECONDS = 0.05
_QUIET_SECONDS = 3.0
"""The copy is complete when all records are there and nothing has come for so long."""
_LONGEST_SECONDS = 900.0


class Mirror:
    """A mirror that runs while the ``with`` block lasts, with all its processes."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._cpu: dict[int, float] = {}
        self._memory: dict[int, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        with self._log.open("wb") as stream:
            self._process = start_bound(self._command, stdout=stream, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end(self._process, patience_seconds=60)

    def look(self) -> None:
        """Take the processes' time and memory. Raises SystemExit when the mirror has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            text = self._log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"{self._command[:1]} ended with {self._process.returncode}: {text}")
        for pid in _family(self._process.pid):
            with suppress(OSError, IndexError, ValueError):
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self._cpu[pid] = (int(words[11]) + int(words[12])) / _TICKS
                status = Path(f"/proc/{pid}/status").read_text()
                self._memory[pid] = int(status.partition("VmHWM:")[2].split()[0]) // 1024

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    @property
    def peak_mib(self) -> int:
        """The largest memory of each of its processes together."""
        return sum(self._memory.values())


def _family(pid: int) -> list[int]:
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    return found


class Ends:
    """How far a topic reaches for readers of committed records, which may not exist yet."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

    def total(self) -> int:
        """The sum over the partitions; markers of transactions count too."""
        answers = self._admin.list_offsets(self._asked, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return sum(answer.result(5).offset for answer in answers.values())
        except (KafkaException, TimeoutError):
            return 0


def measured_copy(mirror: Mirror, target: KafkaBroker, topic: str, records: int, partitions: int) -> dict[str, Any]:
    """Watch a copy of a topic that is full already, to its end; make sure that each record came once."""
    ends = Ends(target.bootstrap, topic, partitions)
    first: tuple[float, int] | None = None
    last = (time.monotonic(), 0)
    cpu = 0.0
    while True:
        now, total = time.monotonic(), ends.total()
        mirror.look()
        if total and first is None:
            first = (now, total)
        if total > last[1]:
            last, cpu = (now, total), mirror.cpu_seconds
        elif total >= records and now - last[0] > _QUIET_SECONDS:
            break
        elif now - mirror.started > _LONGEST_SECONDS:
            raise SystemExit(f"{last[1]} of {records} records were copied in {_LONGEST_SECONDS:.0f} s")
        time.sleep(_LOOK_SECONDS)
    assert first is not None
    peak = mirror.peak_mib
    found = count(target, topic)
    if found != records:
        raise SystemExit(f"{found} records are in the target, and {records} in the source")
    steady = (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else float("inf")
    done = last[0] - mirror.started
    return {
        "records_per_second": round(steady),
        "first_record_seconds": round(first[0] - mirror.started, 2),
        "done_seconds": round(done, 2),
        "cpu_seconds": round(cpu, 1),
        "cpu_seconds_per_million": round(cpu / records * 1e6, 2),
        "peak_mib": peak,
    }


def count(kafka: KafkaBroker, topic: str) -> int:
    """How many committed records a topic has."""
    ends = {number: high for number, (low, high) in kafka.watermarks(topic).items() if high > low}
    options = {"group.id": "count", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    more = {"enable.partition.eof": True, "isolation.level": "read_committed", "fetch.queue.backoff.ms": 2}
    consumer = Consumer(kafka.client_options(**options, **more))
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    found = 0
    try:
        while ends:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found += 1
                elif error.code() == KafkaError._PARTITION_EOF:  # which comes, for the topic has come to rest
                    ends.pop(message.partition(), None)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return found
