"""Compares audits of one, five and twenty million received keys with a plain count() by Spark's Kafka connector.

`make bench-audit` writes build/bench/audit.json. Each measured program is a process of its own, from start to exit: the
start of Java counts for both, and bundle, report and state count for an audit. On a busy machine only the ratios are
meaningful; count and audit alternate, and the fastest of several turns counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measurement import GAPLESS, process_tree

from kit.kafka.broker import KafkaBroker
from kit.peer.received_events import Stream, receive_many

PARTITIONS = 4
NEW_SHARE = 0.01
MASTER, CORES = "local[2]", 2


def count_command(kafka: KafkaBroker, topic: str) -> list[str]:
    """Return the command that counts a topic, after preparing what it needs once per machine."""
    program = [sys.executable, str(Path(__file__).with_name("connector_count.py"))]
    subprocess.run([*program, "prepare", kafka.bootstrap, topic, MASTER, str(CORES)], check=True, capture_output=True)
    return [*program, "count", kafka.bootstrap, topic, MASTER, str(CORES)]


def measure_roles(command: list[str]) -> dict[str, Any]:
    """Run a program and wait; return its seconds, and the peak memory of driver, Java and largest Python worker."""
    start = time.monotonic()
    peaks: dict[str, dict[int, int]] = {"driver": {}, "java": {}, "workers": {}}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            for pid in process_tree(process.pid):
                with suppress(OSError, IndexError, ValueError):
                    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                    role = "java" if words[0].endswith("java") else "driver" if pid == process.pid else "workers"
                    status = Path(f"/proc/{pid}/status").read_text()
                    peaks[role][pid] = int(status.partition("VmHWM:")[2].split()[0])
            time.sleep(0.1)
        seconds = time.monotonic() - start
        if process.returncode != 0:
            raise SystemExit(f"{command[:3]} failed with exit code {process.returncode}")
    memory = {f"{role}_peak_mib": max(peak.values(), default=0) // 1024 for role, peak in peaks.items()}
    return {"seconds": round(seconds, 2), **memory}


def measure(kafka: KafkaBroker, keys: int, turns: int, folder: Path) -> dict[str, Any]:
    """Fill a topic, and alternately count and audit it; then add records and audit again."""
    topic = kafka.create_topic(f"received-{keys}", PARTITIONS)
    receive_many(kafka, topic, [Stream(partition=number) for number in range(PARTITIONS)], keys // PARTITIONS)
    command = count_command(kafka, topic)
    counts, audits = [], []
    for turn in range(turns):
        counts.append(measure_roles(command))
        audits.append(
            measure_roles(audit_command(kafka, topic, folder, folder / f"state-{keys}-{turn}", engine="spark"))
        )
    state = json.loads((folder / "report.json").read_text())["state"]
    more = [Stream(partition=number, first_offset=keys, seed=2) for number in range(PARTITIONS)]
    receive_many(kafka, topic, more, int(keys * NEW_SHARE) // PARTITIONS)
    incremental = measure_roles(audit_command(kafka, topic, folder, folder / f"state-{keys}-{turns - 1}"))
    report = json.loads((folder / "report.json").read_text())
    counted, audited = (min(runs, key=lambda run: run["seconds"]) for runs in (counts, audits))
    return {
        "keys": keys,
        "count": counted,
        "audit": audited,
        "audit_records_per_second": round(keys / audited["seconds"]),
        "ratio_to_count": round(counted["seconds"] / audited["seconds"], 3),
        "state_bytes": state["bytes"],
        "ranges": sum(partition["ranges"] for partition in report["partitions"]),
        "incremental": {**incremental, "new_records": report["state"]["records_new"]},
        "incremental_ratio": round(incremental["seconds"] / audited["seconds"], 3),
    }


def audit_command(kafka: KafkaBroker, topic: str, folder: Path, state: Path, engine: str = "auto") -> list[str]:
    options = {
        "bootstrap-servers": kafka.bootstrap,
        "topics": topic,
        "master": MASTER,
        "parallelism": CORES,
        "engine": engine,
    }
    options |= {"state": state, "report": folder / "report.json", "resend-file-name": folder / "bundle.json"}
    return [GAPLESS, "audit", *(f"--{name}={value}" for name, value in options.items())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("build/bench/audit.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, KafkaBroker(jvm_options=["-Xmx512m"]) as kafka:
        runs = []
        for keys in options.keys:
            runs.append(measure(kafka, keys, options.turns, Path(folder)))
            print(json.dumps(runs[-1]), flush=True)
            largest = runs[-1]
            found = {
                "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "ratio_to_count": largest["ratio_to_count"],
                "incremental_ratio": largest["incremental_ratio"],
                "seconds_per_million": {
                    run["keys"]: round(run["audit"]["seconds"] / run["keys"] * 1e6, 2) for run in runs
                },
                "runs": runs,
            }
            options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
