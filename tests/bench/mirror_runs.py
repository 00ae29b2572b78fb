"""Observing a mirror while it copies: the usage of its processes, and the end offsets of the target.

All mirrors are measured from outside in the same way, by the records that a reader of committed records can see.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from measurement import Usage

from kit.machine.processes import end, start_bound

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

_SAMPLE_SECONDS = 0.05
_QUIET_SECONDS = 3.0
"""The copy is complete when all records are in the target and none has arrived for this time."""
_TIMEOUT_SECONDS = 900.0


class Mirror:
    """A mirror with all its processes; it runs while the ``with`` block lasts."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._usage = Usage()
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

    def sample(self) -> None:
        """Read the usage of the processes. Raises SystemExit when the mirror has exited."""
        assert self._process is not None
        if self._process.poll() is not None:
            text = self._log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"{self._command[:1]} exited with {self._process.returncode}: {text}")
        self._usage.sample(self._process.pid)

    @property
    def cpu_seconds(self) -> float:
        return self._usage.cpu_seconds

    @property
    def peak_mib(self) -> int:
        """The sum of the peaks of all its processes."""
        return self._usage.peak_mib


class Ends:
    """The end offsets of a topic for readers of committed records; the topic need not exist yet."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._request = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

    def total(self) -> int:
        """Return the sum over the partitions, including transaction markers."""
        answers = self._admin.list_offsets(self._request, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return sum(answer.result(5).offset for answer in answers.values())
        except (KafkaException, TimeoutError):
            return 0


def measure_copy(mirror: Mirror, target: KafkaBroker, topic: str, records: int, partitions: int) -> dict[str, Any]:
    """Observe the copy of a full topic until it is complete; check that each record was copied once."""
    ends = Ends(target.bootstrap, topic, partitions)
    first: tuple[float, int] | None = None
    last = (time.monotonic(), 0)
    cpu = 0.0
    while True:
        now, total = time.monotonic(), ends.total()
        mirror.sample()
        if total and first is None:
            first = (now, total)
        if total > last[1]:
            last, cpu = (now, total), mirror.cpu_seconds
        elif total >= records and now - last[0] > _QUIET_SECONDS:
            break
        elif now - mirror.started > _TIMEOUT_SECONDS:
            raise SystemExit(f"{last[1]} of {records} records were copied in {_TIMEOUT_SECONDS:.0f} s")
        time.sleep(_SAMPLE_SECONDS)
    assert first is not None
    peak = mirror.peak_mib
    found = count(target, topic)
    if found != records:
        raise SystemExit(f"the target has {found} records, and the source has {records}")
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
    """Return the number of committed records of a topic."""
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
                elif error.code() == KafkaError._PARTITION_EOF:  # reliable, because the topic no longer grows
                    ends.pop(message.partition(), None)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return found
