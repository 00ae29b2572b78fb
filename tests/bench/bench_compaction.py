"""Measures `gapless compact`: it reads many segments, writes one per partition, reads it back and commits it.

`make bench-compaction` writes `compaction` and `compaction_mb_per_second` (of events) into build/bench/restore.json.
The archive is written without Kafka, in segments like those of `gapless archive`. Events of 1 KiB are half random, half
text; log lines have 200 bytes. Each measured program is a process of its own, from start to exit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from measurement import GAPLESS, measure_command

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import LevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place

RECORDS, PARTITIONS = 2_000_000, 8
SEGMENTS = 12
"""Of each partition."""
BATCH_SIZE = 5000
GOAL = 150
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
WORDS = [hashlib.sha256(str(number).encode()).hexdigest()[: 3 + number % 9] for number in range(2000)]


def event(chance: random.Random) -> bytes:
    return chance.randbytes(512) + b"the order was taken, packed and sent; " * 13 + b"the end of it     "


def line(chance: random.Random) -> bytes:
    text = f"2026-11-22T10:00:00.{chance.randrange(1000):03d}Z host-{chance.randrange(40)} INFO "
    return (text + " ".join(chance.choices(WORDS, k=30))).encode()[:200]


def batches(kind: str, partition: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
    chance = random.Random(partition)
    values = [event(chance) if kind == "events" else line(chance) for _ in range(BATCH_SIZE)]
    for begin in range(first, first + count, BATCH_SIZE):
        size = min(BATCH_SIZE, first + count - begin)
        chance.shuffle(values)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([partition] * size, pa.int32()),
                pa.array(range(begin, begin + size), pa.int64()),
                pa.array(range(1_700_000_000_000, 1_700_000_000_000 + size), pa.int64()),
                pa.array([0] * size, pa.int8()),
                pa.array([str(begin + number).encode() for number in range(size)], pa.binary()),
                pa.array(values[:size], pa.binary()),
                pa.array([[]] * size, SCHEMA.field("headers").type),
            ],
            schema=SCHEMA,
        )


def fill(folder: Path, kind: str, records: int) -> None:
    """Write the archive: in each round one segment for each partition."""
    place = open_place(parse_place(str(folder)), S3Access())
    chain = Chain(place, "bench", kind, TOPIC_ID)
    segment_records = records // PARTITIONS // SEGMENTS
    origin = Origin(log_start=0, high_watermark=2**40, epoch=1)
    for turn in range(SEGMENTS):
        for partition in range(PARTITIONS):
            first = turn * segment_records
            coverage = Coverage(
                topic=kind,
                partition=partition,
                first=first,
                end=first + segment_records,
                prefix=chain.prefix,
                limits=Limits(10**9, 10**12),
                origin=origin,
            )
            with place.scratch() as scratch, LevelZeroWriter(place, scratch, [coverage]) as writer:
                for rows in batches(kind, partition, first, segment_records):
                    writer.add(PartitionRows(kind, partition, rows))
                added = tuple(segment for _, segment in writer.close())
            chain.commit(chain.load(), Changes(action="archive", epoch=1, added=added, partitions=PARTITIONS))


def compaction(kind: str, records: int, *more: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        archive, report = Path(folder) / "archive", Path(folder) / "report.json"
        fill(archive, kind, records)
        rules = ["--min-segment-age=0", "--min-segment-size=0", "--min-segment-count=2", "--grace-period=0"]
        usage = measure_command([GAPLESS, "compact", f"--archive={archive}", f"--report={report}", *rules, *more])
        result = json.loads(report.read_text())
    assert (result["outputs"], result["deleted"]) == (PARTITIONS, PARTITIONS * SEGMENTS), result
    content = result["content_bytes"]
    return {
        **usage,
        "records": result["records"],
        "content_bytes": content,
        "stored_bytes": result["output_bytes"],
        "run_by": result["run_by"],
        "mb_per_second": round(content / usage["seconds"] / 1e6, 1),
        "cpu_seconds_per_gb": round(usage["cpu_seconds"] / content * 1e9, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--kinds", nargs="+", default=["events", "lines"])
    parser.add_argument("--engine", default="local")
    parser.add_argument("--output", type=Path, default=Path("build/bench/restore.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {"load_before": round(os.getloadavg()[0], 1), "goal_mb_per_second": GOAL}
    for kind in options.kinds:
        found[kind] = compaction(kind, options.records, f"--engine={options.engine}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(options.output.read_text()) if options.output.exists() else {}
    figures = {"compaction": found, "compaction_mb_per_second": found[options.kinds[0]]["mb_per_second"]}
    options.output.write_text(json.dumps({**before, **figures}, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
