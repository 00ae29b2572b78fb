"""Measuring the latency of a mirror with records at a constant rate, read at the source and at the target.

The latency of a record is the time from its arrival at a reader of the source to its arrival at a reader of the target,
both in this process.
"""

from __future__ import annotations

import struct
import threading
import time
from array import array
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from mirror_runs import Mirror

    from kit.kafka.broker import KafkaBroker

_NUMBER = struct.Struct(">q")
_PADDING = bytes(1024 - _NUMBER.size)
_BURSTS = 100
"""Per second."""
_ABSENT = 0.0
_TIMEOUT_SECONDS = 180.0


class _Arrivals:
    """Reads committed records in a thread and records the arrival time of each numbered one."""

    def __init__(self, kafka: KafkaBroker, topic: str, partitions: int, numbers: int) -> None:
        options = {"group.id": "latency", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        more = {"isolation.level": "read_committed", "fetch.wait.max.ms": 20, "fetch.queue.backoff.ms": 2}
        missing = {"allow.auto.create.topics": False, "topic.metadata.refresh.interval.ms": 1000}
        self._consumer = Consumer(kafka.client_options(**options, **more, **missing))
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.times = array("d", bytes(8 * numbers))
        self.count = 0
        """Number of distinct numbered records."""
        self.seen = threading.Event()
        """Set when the first record arrives."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(2000, 0.01)
            now = time.perf_counter()
            for message in messages:
                value = message.value() if message.error() is None else None
                if value is not None:
                    self.seen.set()
                    (number,) = _NUMBER.unpack_from(value)
                    if number >= 0:
                        self.count += self.times[number] == _ABSENT
                        self.times[number] = now
        self._consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def measure_latency(
    mirror: Mirror, source: KafkaBroker, target: KafkaBroker, topic: str, *, partitions: int, rate: int, seconds: int
) -> dict[str, Any]:
    """Once the mirror copies, write `rate` records of 1 KiB per second for `seconds`; return the latencies."""
    numbers = rate * seconds
    arrivals = [_Arrivals(kafka, topic, partitions, numbers) for kafka in (source, target)]
    at_source, at_target = arrivals
    producer = Producer(source.client_options(**{"linger.ms": 2}))
    try:
        _warm_up(mirror, producer, topic, at_target, partitions)
        mirror.sample()
        cpu = mirror.cpu_seconds
        begun = time.perf_counter()
        burst = rate // _BURSTS
        for first in range(0, numbers, burst):
            wait = begun + first / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            for number in range(first, first + burst):
                producer.produce(topic, _NUMBER.pack(number) + _PADDING, partition=number % partitions)
            producer.poll(0)
        producer.flush(30)
        behind = time.perf_counter() - begun - seconds
        mirror.sample()
        cpu = mirror.cpu_seconds - cpu
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while min(at_source.count, at_target.count) < numbers:
            if time.monotonic() > deadline:
                raise SystemExit(f"{at_target.count} of {numbers} records arrived at the target")
            time.sleep(0.1)
    finally:
        for reader in arrivals:
            reader.close()
    latencies = sorted(max(end - start, 0.0) for start, end in zip(at_source.times, at_target.times, strict=True))
    return {
        "records_per_second": rate,
        "records": numbers,
        "p50_seconds": round(latencies[numbers // 2], 3),
        "p99_seconds": round(latencies[numbers * 99 // 100], 3),
        "cpu_seconds_per_million": round(cpu / numbers * 1e6, 2),
        "writer_behind_seconds": round(max(behind, 0.0), 2),
    }


def _warm_up(mirror: Mirror, producer: Producer, topic: str, at_target: _Arrivals, partitions: int) -> None:
    """Write unnumbered records until one arrives at the target, and then for five more seconds."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    until = deadline
    while time.monotonic() < until:
        mirror.sample()
        for number in range(100):
            producer.produce(topic, _NUMBER.pack(-1) + _PADDING, partition=number % partitions)
        producer.poll(0)
        time.sleep(0.1)
        if until == deadline and at_target.seen.is_set():
            until = time.monotonic() + 5
    if not at_target.seen.is_set():
        raise SystemExit(f"No record of {topic} arrived at the target within {_TIMEOUT_SECONDS:.0f} s")
