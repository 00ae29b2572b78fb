"""Measures restores: two million records of 1 KiB in 8 partitions, and five million log lines of 200 bytes.

`make bench-restore` writes build/bench/restore.json. The archive is written directly, so that only the restore is
measured, from start to exit: with Spark and in one process. Records have timestamps and keys, and every tenth has a
header; they compress to about a third, like logs. Memory is the peak of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from few_records import ONE_OF, few_records
from measurement import GAPLESS, measure_command

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import LevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import HEADERS, SCHEMA, PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from kit.kafka.broker import KafkaBroker

PARTITIONS = 8
WORKLOADS = {"1KiB": (1024, 2_000_000), "200B": (200, 5_000_000)}
GOAL_RECORDS_PER_SECOND = 60_000
FEW = {"1KiB": (1024, 2_000_000), "200B": (200, 10_000_000), "json": (0, 10_000_000)}
GOAL_FEW_RECORDS_BYTES_RATIO = 0.05
_ROWS = 10_000
_NOW_MS = int(datetime.now(UTC).timestamp() * 1000)
_WORDS = [f"{word}={number:04d} " for number, word in enumerate(("user", "host", "path", "status", "agent", "region"))]
_LEVELS = [b"INFO"] * 6 + [b"WARN", b"ERROR"]
_SERVICES = [b"orders", b"payments", b"stock", b"mail", b"orders"]
_TEXTS = [
    b"Order accepted",
    b"Order rejected because the card was refused",
    b"Stock reserved",
    b"Mail queued for delivery",
]


def batches(size: int, count: int, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of one partition: a third of each value is random, the rest are words of a log."""
    chance = random.Random(partition)
    text = "".join(chance.choice(_WORDS) for _ in range(size)).encode()
    for first in range(0, count, _ROWS):
        rows = min(_ROWS, count - first)
        noise = chance.randbytes(rows * (size // 6)).hex().encode()
        third = size // 3
        values = []
        for number in range(rows):
            at = number * 7 % size
            values.append(noise[number * third : (number + 1) * third] + text[at : at + size - third])
        headers = pa.array([[("trace", b"0123456789")] if n % 10 == 0 else [] for n in range(rows)], HEADERS)
        yield rows_of(partition, first, [_NOW_MS - count + n for n in range(first, first + rows)], values, headers)


def rows_of(
    partition: int, first: int, times: Sequence[int], values: Sequence[bytes], headers: pa.Array | None = None
) -> pa.RecordBatch:
    """Return a batch of records from offset `first` on."""
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition] * count, pa.int32()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array(times, pa.int64()),
            pa.array([0] * count, pa.int8()),
            pa.array([b"%016d" % n for n in range(first, first + count)], pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([[]] * count, HEADERS) if headers is None else headers,
        ],
        schema=SCHEMA,
    )


def hex_batches(size: int, count: int, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield distinct records that compress to about a half, at irregular times."""
    chance = random.Random(partition)
    time_ms = _NOW_MS
    for first in range(0, count, _ROWS):
        rows = min(_ROWS, count - first)
        text = chance.randbytes(rows * size // 2).hex().encode()
        times = [time_ms := time_ms + chance.randrange(20) for _ in range(rows)]
        yield rows_of(partition, first, times, [text[at : at + size] for at in range(0, rows * size, size)])


def json_batches(_: int, count: int, partition: int) -> Iterator[pa.RecordBatch]:
    """Yield JSON log lines of about 230 bytes that compress to a seventh."""
    chance = random.Random(partition)
    time_ms = _NOW_MS
    for first in range(0, count, _ROWS):
        values, times = [], []
        for _ in range(min(_ROWS, count - first)):
            time_ms += chance.randrange(20)
            number = chance.getrandbits(64)
            level, service = _LEVELS[number % 8], _SERVICES[number % 5]
            values.append(
                b'{"ts": "2026-11-22T10:%02d:%02d.%03dZ", "level": "%s", "host": "app-%d.example", "service": "%s", '
                b'"trace": "%016x", "path": "/api/v1/orders/%d", "status": %d, "ms": %d, "message": "%s"}'
                % (
                    *(time_ms // 60_000 % 60, time_ms // 1000 % 60, time_ms % 1000, level, number % 40, service),
                    *(number, number % 9_999_991, 500 if number % 9 == 0 else 200, number % 3001),
                    _TEXTS[number % 4],
                )
            )
            times.append(time_ms)
        yield rows_of(partition, first, times, values)


def few(folder: Path, name: str, size: int, records: int) -> dict[str, Any]:
    """Write an archive and read few of its records."""
    generate = json_batches if name == "json" else hex_batches
    place = open_place(parse_place(str(folder / "archive")), S3Access())
    make_archive(place, name, size, records, generate)
    return {"record_bytes": size, **few_records(place, name)}


def make_archive(
    place: Place,
    topic: str,
    size: int,
    records: int,
    batches: Callable[[int, int, int], Iterator[pa.RecordBatch]] = batches,
) -> None:
    """Write the archive of a topic without Kafka."""
    count = records // PARTITIONS
    chain = Chain(place, "bench", topic, f"{topic}-id")
    origin = Origin(log_start=0, high_watermark=count, epoch=1)
    segments = []
    for partition in range(PARTITIONS):
        coverage = Coverage(
            topic=topic,
            partition=partition,
            first=0,
            end=count,
            prefix=chain.prefix,
            limits=Limits(1_000_000, 100 << 20),
            origin=origin,
        )
        with place.scratch() as scratch, LevelZeroWriter(place, scratch, [coverage]) as writer:
            for rows in batches(size, count, partition):
                writer.add(PartitionRows(topic, partition, rows))
            segments += [one.segment for one in writer.close()]
    chain.update(
        lambda _: (
            Changes(
                action="archive",
                epoch=1,
                partitions=PARTITIONS,
                configuration={},
                added=tuple(segments),
                cluster_id="c",
            )
            if _.sequence == 0
            else None
        )
    )


def restores(folder: Path, name: str, size: int, records: int, turns: int) -> dict[str, Any]:
    """Restore one workload with each engine; the fastest of the turns counts."""
    archive = folder / "archive"
    begun = time.monotonic()
    make_archive(open_place(parse_place(str(archive)), S3Access()), name, size, records)
    print(f"{name}: archive written in {time.monotonic() - begun:.1f} s", file=sys.stderr)
    found: dict[str, Any] = {"records": records, "record_bytes": size, "partitions": PARTITIONS}
    with KafkaBroker(jvm_options=["-Xmx768m"]) as kafka:
        for engine in ("spark", "local"):
            runs = []
            for turn in range(turns):
                target = f"{name}-{engine}-{turn}"
                report = folder / "report.json"
                command = [
                    GAPLESS,
                    "restore",
                    f"--archive={archive}",
                    f"--bootstrap-servers={kafka.bootstrap}",
                    f"--topics={name}",
                    f"--to-topic={target}",
                    f"--engine={engine}",
                    f"--report={report}",
                ]
                run = measure_command(command)
                result = json.loads(report.read_text())
                assert (result["records"], result["written_by"]) == (records, engine), result["message"]
                kafka.admin().delete_topics([target])[target].result()
                run["records_per_second"] = round(records / run["seconds"])
                run["mb_per_second"] = round(result["bytes"] / 1e6 / run["seconds"], 1)
                run["cpu_seconds_per_gb"] = round(run["cpu_seconds"] / (result["bytes"] / 1e9), 1)
                runs.append(run)
            found[engine] = max(runs, key=lambda run: run["records_per_second"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the records")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", choices=tuple(WORKLOADS))
    parser.add_argument("--few", action="store_true", help="measure only the reading of few records")
    parser.add_argument("--output", type=Path, default=Path("build/bench/restore.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"machine": {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)}}
    for name, (size, records) in WORKLOADS.items():
        if options.only in {None, name} and not options.few:
            scaled = int(records * options.scale) // PARTITIONS * PARTITIONS
            with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
                figures[name] = restores(Path(folder), name, size, scaled, options.turns)
    for name, (size, records) in FEW.items():
        scaled = int(records * options.scale) // PARTITIONS // ONE_OF * PARTITIONS * ONE_OF
        with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
            figures[f"few-{name}"] = few(Path(folder), name, size, scaled)
    ratios = [figures[f"few-{name}"]["few_records_bytes_ratio"] for name in FEW]
    figures["few_records_bytes_ratio"] = max(ratios)
    figures["goals"] = {
        "records_per_second": GOAL_RECORDS_PER_SECOND,
        "few_records_bytes_ratio": GOAL_FEW_RECORDS_BYTES_RATIO,
    }
    large = figures.get("1KiB") or figures.get("200B")
    rates = [large[engine]["records_per_second"] for engine in ("spark", "local")] if large else []
    figures["records_per_second"] = max(rates, default=None)
    options.output.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return int(options.scale >= 1 and bool(rates) and max(rates) < GOAL_RECORDS_PER_SECOND)


if __name__ == "__main__":
    sys.exit(main())
