"""Measures `gapless compact`: content that becomes one segment for each partition, read, written, read back, committed.

`make bench-compaction` writes `compaction` and `compaction_mb_per_second` (of events) into build/bench/restore.json.
The archive is made without Kafka, in segments as `gapless archive` ends them. Events of 1 KiB are half random, half
text; log lines have 200 bytes. Each measured program is a process of its own, from its start to its end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from bench_scan import GAPLESS, measured

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import Coverage, LevelZeroWriter, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS, PARTITIONS = 2_000_000, 8
SEGMENTS = 12
"""Of each partition."""
AT_ONCE = 5000
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
    made = [event(chance) if kind == "events" else line(chance) for _ in range(AT_ONCE)]
    for begin in range(first, first + count, AT_ONCE):
        size = min(AT_ONCE, first + count - begin)
        chance.shuffle(made)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([partition] * size, pa.int32()),
                pa.array(range(begin, begin + size), pa.int64()),
                pa.array(range(1_700_000_000_000, 1_700_000_000_000 + size), pa.int64()),
                pa.array([0] * size, pa.int8()),
                pa.array([str(begin + number).encode() for number in range(size)], pa.binary()),
                pa.array(made[:size], pa.binary()),
                pa.array([[]] * size, SCHEMA.field("headers").type),
            ],
            schema=SCHEMA,
        )


def fill(folder: Path, kind: str, records: int) -> None:
    """Archive records in turns, each partition one segment in each."""
    place = open_place(parse_place(str(folder)), S3Access())
    chain = Chain(place, "bench", kind, TOPIC_ID)
    each = records // PARTITIONS // SEGMENTS
    origin = Origin(log_start=0, high_watermark=2**40, epoch=1)
    for turn in range(SEGMENTS):
        for partition in range(PARTITIONS):
            first = turn * each
            coverage = Coverage(
                topic=kind,
                partition=partition,
                first=first,
                end=first + each,
                prefix=chain.prefix,
                limits=Limits(10**9, 10**12),
                origin=origin,
            )
            with place.scratch() as scratch, LevelZeroWriter(place, scratch, [coverage]) as writer:
                for rows in batches(kind, partition, first, each):
                    writer.add(PartitionRows(kind, partition, rows))
                added = tuple(segment for _, segment in writer.close())
            chain.commit(chain.load(), Changes(action="archive", epoch=1, added=added, partitions=PARTITIONS))


def compaction(kind: str, records: int, *more: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        place, report = Path(folder) / "archive", Path(folder) / "report.json"
        fill(place, kind, records)
        rules = ["--min-segment-age=0", "--min-segment-size=0", "--min-segment-count=2", "--grace-period=0"]
        found = measured([GAPLESS, "compact", f"--archive={place}", f"--report={report}", *rules, *more])
        told = json.loads(report.read_text())
    assert (told["outputs"], told["deleted"]) == (PARTITIONS, PARTITIONS * SEGMENTS), told
    content = told["content_bytes"]
    return {
        **found,
        "records": told["records"],
        "content_bytes": content,
        "stored_bytes": told["output_bytes"],
        "run_by": told["run_by"],
        "mb_per_second": round(content / found["seconds"] / 1e6, 1),
        "cpu_seconds_per_gb": round(found["cpu_seconds"] / content * 1e9, 2),
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
