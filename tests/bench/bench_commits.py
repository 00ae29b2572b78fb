"""Compares two installations of Gapless, such as two commits, by the processor time of the same work in turns.

`make bench-commits BEFORE=FOLDER` writes build/bench/commits.json; FOLDER is the root of another working copy in which
`make .venv/.ready` was run. Seconds vary by a third on a busy machine, and processor time of single runs by some
percent, so each figure is the median of the ratios of pairs that ran one after the other, in changing order.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_archive import Workload, fill
from measurement import measure_command

from kit.kafka.broker import KafkaBroker
from kit.peer.received_events import Stream, receive_many

PARTITIONS, KEYS_PARTITIONS = 8, 4
OWN = Path(sys.executable).parent


@dataclass(frozen=True)
class Site:
    """The brokers, and the topics that are full."""

    source: KafkaBroker
    target: KafkaBroker
    folder: Path
    records: str
    keys: str

    def mirror(self, run: str, delivery: str, engine: str = "workers") -> list[str]:
        """Copy all records to a topic of this run."""
        return [
            *("mirror", "--once", f"--name={run}", f"--topics={self.records}", f"--rename={run}-{{topic}}"),
            *(f"--engine={engine}", *(["--master=local[2]"] if engine == "spark" else [])),
            *(f"--source-bootstrap-servers={self.source.bootstrap}", f"--delivery={delivery}"),
            *(f"--target-bootstrap-servers={self.target.bootstrap}", "--compression=lz4", "--heartbeat=false"),
        ]

    def archive(self, run: str, engine: str = "local") -> list[str]:
        """Archive all records to a folder of this run."""
        options = {"topics": self.records, "archive": self.folder / run, "region": "bench", "engine": engine}
        return ["archive", "--once", *self._read(options)]

    def audit(self, run: str, engine: str = "local") -> list[str]:
        """Audit all keys with a state of this run."""
        options = {"topics": self.keys, "state": self.folder / f"{run}-state", "engine": engine}
        return ["audit", *self._read(options | {"resend-file-name": self.folder / f"{run}.json"})]

    def _read(self, options: dict[str, Any]) -> list[str]:
        options = {"bootstrap-servers": self.source.bootstrap, "master": "local[2]", **options}
        return [f"--{name}={value}" for name, value in options.items()]

    def clean(self, run: str) -> None:
        """Delete what a run has written."""
        admin = self.target.admin()
        topics = [name for name in admin.list_topics(timeout=10).topics if run in name]
        for deleted in admin.delete_topics(topics).values() if topics else ():
            deleted.result()
        for path in self.folder.glob(f"{run}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


CASES: dict[str, Callable[[Site, str], list[str]]] = {
    "mirror, exactly once": lambda site, run: site.mirror(run, "exactly-once"),
    "mirror, at least once": lambda site, run: site.mirror(run, "at-least-once"),
    "mirror with Spark": lambda site, run: site.mirror(run, "exactly-once", "spark"),
    "mirror with SQL": lambda site, run: [
        *site.mirror(run, "exactly-once", "spark"),
        "--transform=SELECT regexp_replace(CAST(value AS STRING), '[0-9]{16}', '****') AS value FROM records",
    ],
    "archive": Site.archive,
    "archive with Spark": lambda site, run: site.archive(run, "spark"),
    "audit": Site.audit,
    "audit with Spark": lambda site, run: site.audit(run, "spark"),
}


def compare(site: Site, case: str, before: Path, pairs: int) -> dict[str, Any]:
    """Run a case with both installations in turns; the first pair only warms up."""
    programs = {"before": before / ".venv" / "bin" / "gapless", "after": OWN / "gapless"}
    found: dict[str, list[float]] = {"before": [], "after": []}
    for pair in range(pairs + 1):
        for which in ("before", "after") if pair % 2 else ("after", "before"):
            run = f"{which}{pair}-{len(case)}"
            usage = measure_command([str(programs[which]), *CASES[case](site, run)])
            site.clean(run)
            if pair:
                found[which].append(usage["cpu_seconds"])
    ratios = sorted(after / before for before, after in zip(found["before"], found["after"], strict=True))
    quarter = len(ratios) // 4
    return {
        "cpu_seconds_before": found["before"],
        "cpu_seconds_after": found["after"],
        "ratio": round(statistics.median(ratios), 3),
        "middle_half": [round(ratios[quarter], 3), round(ratios[-1 - quarter], 3)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="root of the other working copy")
    parser.add_argument("--records", type=int, default=400_000, help="records of 1 KiB to copy")
    parser.add_argument("--keys", type=int, default=1_000_000, help="received keys to audit")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--output", type=Path, default=Path("build/bench/commits.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    jvm = ["-Xmx512m"]
    with (
        tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder,
        KafkaBroker(jvm_options=jvm) as source,
        KafkaBroker(jvm_options=jvm) as target,
    ):
        records, keys = source.create_topic("records", PARTITIONS), source.create_topic("keys", KEYS_PARTITIONS)
        fill(source, records, Workload("records", options.records, 1024, PARTITIONS))
        streams = [Stream(partition=number) for number in range(KEYS_PARTITIONS)]
        receive_many(source, keys, streams, options.keys // KEYS_PARTITIONS)
        site = Site(source, target, Path(folder), records, keys)
        found: dict[str, Any] = {"made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "pairs": options.pairs}
        for case in options.cases:
            found[case] = compare(site, case, options.before, options.pairs)
            print(json.dumps({case: found[case]}), flush=True)
            options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
