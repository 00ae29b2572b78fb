"""Measuring the start and the idle cost of a mirror of a topic with many partitions, few of them with records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror_runs import Ends, Mirror

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

PARTITIONS, ACTIVE = 1000, 50
_RECORDS = 20
"""For each active partition, before each start."""
_IDLE_SECONDS = 30.0
_SETTLED_SECONDS = 5.0
_TIMEOUT_SECONDS = 180.0


def measure_idle(
    command: Sequence[str], source: KafkaBroker, target: KafkaBroker, topic: str, log: Path
) -> dict[str, Any]:
    """Start a mirror twice, first with a new topic, then with existing positions; then let it idle."""
    source.create_topic(topic, PARTITIONS)
    starts = []
    for turn in (1, 2):
        for partition in range(0, PARTITIONS, PARTITIONS // ACTIVE):
            source.produce(topic, [b"x" * 200] * _RECORDS, partition=partition)
        with Mirror(command, log) as mirror:
            starts.append(_start(mirror, target, topic, turn * ACTIVE * _RECORDS))
            if turn == 2:
                time.sleep(_SETTLED_SECONDS)
                mirror.sample()
                begun, cpu = time.monotonic(), mirror.cpu_seconds
                time.sleep(_IDLE_SECONDS)
                mirror.sample()
                share = (mirror.cpu_seconds - cpu) / (time.monotonic() - begun)
                peak = mirror.peak_mib
    return {
        "partitions": PARTITIONS,
        "active": ACTIVE,
        "first_start_seconds": starts[0],
        "start_seconds": starts[1],
        "idle_cpu_percent_of_a_core": round(share * 100, 1),
        "peak_mib": peak,
    }


def _start(mirror: Mirror, target: KafkaBroker, topic: str, records: int) -> float:
    """Wait until all records are in the target; return the seconds since the start."""
    ends = Ends(target.bootstrap, topic, PARTITIONS)
    while ends.total() < records:
        mirror.sample()
        if time.monotonic() - mirror.started > _TIMEOUT_SECONDS:
            raise SystemExit(f"{ends.total()} of {records} records were copied in {_TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.1)
    return round(time.monotonic() - mirror.started, 2)
