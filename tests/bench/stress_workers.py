"""Ends parallel resends with key rotation at random moments, and compares report, checkpoint and received events.

`make stress-workers` writes build/bench/stress-workers.json and fails if a run did not end within five seconds of its
signal, wrote no report, or if the three differ in any offset.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from kit.kafka.broker import KafkaBroker
from kit.network.listener import Listener
from kit.story.worker_rounds import EVENTS, PARTITIONS, Rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "200")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", str(int(time.time())))))
    parser.add_argument("--output", type=Path, default=Path("build/bench/stress-workers.json"))
    options = parser.parse_args()
    problems: list[str] = []
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="gapless-stress-") as folder,
        KafkaBroker(Path(folder) / "kafka") as broker,
        Listener() as listener,
    ):
        topic = broker.create_topic("stress", PARTITIONS)
        for partition in range(PARTITIONS):
            broker.produce(topic, (b"%d of %d" % (offset, partition) for offset in range(EVENTS)), partition=partition)
        settings = {"bootstrapServers": broker.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
        rounds = Rounds(topic, Path(folder), settings, listener, random.Random(options.seed))
        for number in range(options.rounds):
            found = rounds.run_round(number)
            problems += found
            print(
                f"{time.monotonic() - began:6.0f} s  round {number + 1}, {len(problems)} problems", *found, flush=True
            )
    result = {
        "rounds": options.rounds,
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 1),
        "ways": dict(rounds.ways),
        "slowest_seconds": round(rounds.slowest_seconds, 2),
        "unreported": rounds.unreported,
        "repeated": rounds.repeated,
        "problems": problems,
        "ok": not problems,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
