"""Measures gapless mirror beside MirrorMaker 2: two million records of 1 KiB and five million of 200 bytes.

`make bench-mirror` writes build/bench/mirror.json. Two brokers, one copy after the other, all of the same run, with the
same compression, the same interval between commits and equal guarantees: exactly once, and at least once. A copy begins
with a full source. Its steady pace is that from the first records that a reader of the target sees to the last; memory
is the largest of each process of a mirror, together. Latency is measured apart, at 10,000 records a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_archive import Workload, fill
from mirror_idle import measured_idle
from mirror_latency import measured_latency
from mirror_runs import Mirror, measured_copy
from mirrormaker import Copy, mirrormaker

from kit.kafka.broker import KafkaBroker
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTITIONS = 8
WORKLOADS = {"1KiB": Workload("kibibytes", 2_000_000, 1024), "200B": Workload("log-lines", 5_000_000, 200)}
RATE, SECONDS = 10_000, 20
PLAIN_LOOP = "plain-loop"
"""No mirror: what Kafka's Python client takes alone, for its share in what a mirror takes. It has no latency."""
MIRRORS = ("mirrormaker2", "workers", "spark", PLAIN_LOOP)
GUARANTEES = ("exactly-once", "at-least-once")
GOALS = {
    "ratio_to_mirrormaker2": 2.0,
    "start_to_done_ratio": 0.3,
    "cpu_ratio_to_mirrormaker2": 0.25,
    "memory_ratio_to_mirrormaker2": 0.4,
    "latency_p99_seconds": 1.0,
    "spark_ratio_to_mirrormaker2": 0.8,
    "spark_latency_p99_seconds": 5.0,
    "many_partitions_start_seconds": 10.0,
    "many_partitions_idle_cpu_percent": 5.0,
    "many_partitions_peak_mib": 300,
}
_AT_LEAST = ("ratio_to_mirrormaker2", "spark_ratio_to_mirrormaker2")
"""Goals that a figure must reach; the others it must not exceed."""
GAPLESS = str(Path(sys.executable).parent / "gapless")


class Bench:
    """Two brokers and what was measured between them."""

    def __init__(self, source: KafkaBroker, target: KafkaBroker, folder: Path, options: argparse.Namespace) -> None:
        self._source, self._target, self._folder, self._options = source, target, folder, options
        self._number = 0

    def copies(self, name: str) -> dict[str, Any]:
        """Copy one workload with each mirror and each guarantee; the quickest of the turns counts."""
        given = WORKLOADS[name]
        records = int(given.records * self._options.scale)
        topic = self._source.create_topic(given.name, PARTITIONS)
        fill(self._source, topic, Workload(given.name, records, given.value_bytes, PARTITIONS))
        found: dict[str, Any] = {"records": records, "record_bytes": given.value_bytes}
        for guarantee in GUARANTEES:
            turns: dict[str, list[dict[str, Any]]] = {}
            for _ in range(self._options.turns):
                for mirror in self._options.mirrors:
                    with self._running(mirror, topic, guarantee) as running:
                        run = measured_copy(running, self._target, topic, records, PARTITIONS)
                    print(f"{name} {guarantee} {mirror}: {json.dumps(run)}", file=sys.stderr, flush=True)
                    turns.setdefault(mirror, []).append(run)
                    self._delete(topic)
            found[guarantee] = {mirror: min(runs, key=_duration) for mirror, runs in turns.items()}
        self._source.admin().delete_topics([topic])[topic].result()
        return found

    def latency(self) -> dict[str, Any]:
        """The latencies of each mirror, exactly once."""
        found = {}
        for mirror in (one for one in self._options.mirrors if one != PLAIN_LOOP):
            topic = self._source.create_topic(f"paced-{mirror}", PARTITIONS)
            with self._running(mirror, topic, "exactly-once") as running:
                found[mirror] = measured_latency(
                    running, self._source, self._target, topic, partitions=PARTITIONS, rate=RATE, seconds=SECONDS
                )
            print(f"latency {mirror}: {json.dumps(found[mirror])}", file=sys.stderr, flush=True)
            self._delete(topic)
        return found

    def many_partitions(self) -> dict[str, Any]:
        """The case of 1,000 partitions for two workers."""
        copy = self._copy("many-partitions", "exactly-once")
        command = [*gapless(copy, "workers"), "--workers=2"]
        return measured_idle(command, self._source, self._target, copy.topic, self._folder / f"{copy.name}.log")

    def _running(self, mirror: str, topic: str, guarantee: str) -> Mirror:
        copy = self._copy(topic, guarantee)
        log = self._folder / f"{copy.name}.log"
        if mirror == "mirrormaker2":
            return Mirror(mirrormaker(copy, self._folder / copy.name), log)
        if mirror == PLAIN_LOOP:
            self._target.create_topic(topic, PARTITIONS)
            return Mirror(plain_loop(copy), log)
        return Mirror(gapless(copy, mirror), log)

    def _copy(self, topic: str, guarantee: str) -> Copy:
        self._number += 1
        return Copy(
            source=self._source.bootstrap,
            target=self._target.bootstrap,
            topic=topic,
            name=f"bench{self._number}",
            exactly_once=guarantee == "exactly-once",
            compression=self._options.compression,
        )

    def _delete(self, topic: str) -> None:
        admin = self._target.admin()
        admin.delete_topics([topic])[topic].result()
        wait_until(
            lambda: topic not in admin.list_topics(timeout=10).topics, timeout_seconds=30, what="the topic's end"
        )


def gapless(copy: Copy, engine: str) -> list[str]:
    """The command of our mirror."""
    given = {
        "engine": engine,
        "name": copy.name,
        "source-bootstrap-servers": copy.source,
        "target-bootstrap-servers": copy.target,
        "topics": copy.topic,
        "delivery": "exactly-once" if copy.exactly_once else "at-least-once",
        "compression": copy.compression,
        "commit-interval": f"{copy.interval_ms / 1000}s",
    }
    return [GAPLESS, "mirror", *(f"--{name}={value}" for name, value in given.items())]


def plain_loop(copy: Copy) -> list[str]:
    """The command of the plain loop."""
    told = {**asdict(copy), "partitions": PARTITIONS}
    return [sys.executable, str(Path(__file__).with_name("plain_loop.py")), json.dumps(told)]


def _duration(run: dict[str, Any]) -> float:
    return float(run["done_seconds"])


def figures(found: dict[str, Any], engine: str, prefix: str) -> dict[str, float]:
    """An engine beside MirrorMaker 2: of all workloads and guarantees the figure that is worst for us."""
    pairs = [
        (runs["mirrormaker2"], runs[engine])
        for workload in WORKLOADS
        for runs in (found.get(workload, {}).get(guarantee, {}) for guarantee in GUARANTEES)
        if {"mirrormaker2", engine} <= set(runs)
    ]
    told: dict[str, float] = {}
    if pairs:
        told["ratio_to_mirrormaker2"] = min(our["records_per_second"] / its["records_per_second"] for its, our in pairs)
        for name, field in (("start_to_done_ratio", "done_seconds"), ("cpu_ratio_to_mirrormaker2", "cpu_seconds")):
            told[name] = max(our[field] / its[field] for its, our in pairs)
        told["memory_ratio_to_mirrormaker2"] = max(our["peak_mib"] / its["peak_mib"] for its, our in pairs)
    if engine in found.get("latency", {}):
        told["latency_p50_seconds"] = found["latency"][engine]["p50_seconds"]
        told["latency_p99_seconds"] = found["latency"][engine]["p99_seconds"]
    return {prefix + name: round(value, 3) for name, value in told.items()}


def missed(found: dict[str, Any]) -> list[str]:
    """The goals that were measured and not reached."""
    return [
        name
        for name, goal in GOALS.items()
        if name in found and (found[name] < goal if name in _AT_LEAST else found[name] > goal)
    ]


def measure(bench: Bench, only: Sequence[str]) -> dict[str, Any]:
    """Measure what `only` names, and compare."""
    found: dict[str, Any] = {name: bench.copies(name) for name in WORKLOADS if name in only}
    if "latency" in only:
        found["latency"] = bench.latency()
    found |= figures(found, "workers", "") | figures(found, "spark", "spark_")
    if "many-partitions" in only:
        many = found["many_partitions"] = bench.many_partitions()
        found["many_partitions_start_seconds"] = many["start_seconds"]
        found["many_partitions_idle_cpu_percent"] = many["idle_cpu_percent_of_a_core"]
        found["many_partitions_peak_mib"] = many["peak_mib"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the records; 0.1 to try")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--compression", default="none", help="of every mirror, at the target")
    parts = [*WORKLOADS, "latency", "many-partitions"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--mirrors", nargs="+", choices=MIRRORS, default=list(MIRRORS))
    parser.add_argument("--output", type=Path, default=Path("build/bench/mirror.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)},
    }
    heap = ["-Xmx768m"]
    with (
        tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder,
        KafkaBroker(jvm_options=heap) as source,
        KafkaBroker(jvm_options=heap) as target,
    ):
        found |= measure(Bench(source, target, Path(folder), options), options.only)
    found["goals"], found["goals_missed"] = GOALS, missed(found)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return int(options.scale >= 1 and bool(found["goals_missed"]))


if __name__ == "__main__":
    sys.exit(main())
