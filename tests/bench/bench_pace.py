"""Measures how precisely resends keep their rate, from a real broker to a receiver that records arrival times.

`make bench-pace` writes build/bench/pace.json. Everything runs in a network namespace of its own. Arrival times are the
kernel's, so a receiver that is late for lack of CPU time changes nothing; a late sender does. For windows of 1, 10 and
60 seconds, each event begins a window, and the figure is how long the events that the rate allows in that time took.
Most important is that no window is faster than the rate; a slower one means that the sender did not get CPU time, which
happens on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench_sender import compile_program, enter_own_network, machine
from measurement import GAPLESS

from kit.kafka.broker import KafkaBroker

PORT = 9901
BUFFER_MIB = 4
RATES = (1, 10, 500, 5_000, 50_000)
WINDOWS_SECONDS = (1, 10, 60)
TOLERANCE_PERCENT = 2.0
BURST_SECONDS = 0.005
SHARERS = 4
TOPIC = "pace"
VALUE_BYTES = 200
DEADLINE_EXTRA_SECONDS = 60


class Arrangement(NamedTuple):
    """The processes that share one rate."""

    title: str
    programs: int
    processes: int
    """Of each program."""

    @property
    def partitions(self) -> int:
        return self.programs * self.processes


ARRANGEMENTS = {
    "alone": Arrangement("one process", 1, 1),
    "shards": Arrangement("4 processes of one program, one budget", 1, SHARERS),
    "programs": Arrangement("4 programs, one pace file", SHARERS, 1),
}


class Bench:
    """A broker with records, and the resends of them."""

    def __init__(self, kafka: KafkaBroker, folder: Path, receiver: str, *, realtime: bool) -> None:
        self._kafka, self._folder, self._receiver = kafka, folder, receiver
        self._prefix = ["chrt", "--fifo", "1"] if realtime else []

    def fill(self, records: int) -> None:
        """Write the records of the longest run into the first partition, and a quarter of them into each other one."""
        if TOPIC in self._kafka.admin().list_topics(timeout=10).topics:
            return
        self._kafka.create_topic(TOPIC, SHARERS)
        value = b"x" * VALUE_BYTES
        for partition in range(SHARERS):
            count = records if partition == 0 else records // SHARERS + 1
            self._kafka.produce(TOPIC, (value for _ in range(count)), partition=partition)

    def measure(self, arrangement: Arrangement, rate: int, seconds: float) -> dict[str, Any]:
        """Let `arrangement` send for about `seconds`, and compare the arrival times with `rate`."""
        events_each = max(round(rate * seconds) // arrangement.partitions, 1)
        before = oversleep_ms()
        times_file = self._folder / "moments"
        receiver = subprocess.Popen(
            [*self._prefix, self._receiver, str(PORT), str(BUFFER_MIB), str(times_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        begun = time.monotonic()
        senders = [
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            for command in self._commands(arrangement, rate, events_each)
        ]
        deadline = begun + seconds * 3 + DEADLINE_EXTRA_SECONDS
        try:
            for sender in senders:
                _, errors = sender.communicate(timeout=max(deadline - time.monotonic(), 1))
                if sender.returncode:
                    raise SystemExit(f"a resend failed with exit code {sender.returncode}: {errors[-500:]}")
        finally:
            for sender in senders:
                sender.kill()
            counted = json.loads(receiver.communicate(timeout=60)[0])
        arrived = [at / 1e9 for at in sorted(array("Q", times_file.read_bytes()))]
        assert len(arrived) + counted["drops"] == events_each * arrangement.partitions, (len(arrived), counted)
        return figures(arrived, rate, sharers=arrangement.partitions) | {
            "drops": counted["drops"],
            "oversleep_ms": [before, oversleep_ms()],
            "wall_s": round(time.monotonic() - begun, 2),
        }

    def _commands(self, arrangement: Arrangement, rate: int, events_each: int) -> list[list[str]]:
        entries = [
            {"topic": TOPIC, "partition": number, "window_min": 0, "window_max": 0, "gaps": [[0, events_each - 1]]}
            for number in range(arrangement.partitions)
        ]
        bundle, pace = self._folder / "bundle.json", self._folder / "pace"
        bundle.write_text(json.dumps({"type": "all", "results": entries}))
        pace.unlink(missing_ok=True)
        settings: dict[str, Any] = {
            "bootstrapServers": self._kafka.bootstrap,
            "targetIP": "127.0.0.1",
            "targetPort": PORT,
            "resendFileName": bundle,
            "statusPackets": "false",
            "progressInterval": 0,
            "eps": rate,
            "parallelism": arrangement.processes,
            "checkpoint": f"{self._folder}/{arrangement.programs}-{arrangement.processes}-{rate}-{time.time_ns()}/",
        }
        if arrangement.programs > 1:
            settings |= {"shardCount": arrangement.programs, "paceFile": pace}
        shared = [*self._prefix, GAPLESS, "resend", *(f"--{name}={value}" for name, value in settings.items())]
        return [
            shared if arrangement.programs == 1 else [*shared, f"--shardIndex={index}"]
            for index in range(arrangement.programs)
        ]


def oversleep_ms() -> float:
    """Return the worst delay of a short sleep on an idle machine: the influence of a virtual machine's host."""
    worst = 0.0
    for _ in range(400):
        begun = time.monotonic()
        time.sleep(0.005)
        worst = max(worst, time.monotonic() - begun - 0.005)
    return round(worst * 1000, 1)


def figures(arrived: Sequence[float], rate: int, *, sharers: int) -> dict[str, Any]:
    """Compare the arrival times with `rate`; each sharer may have one delayed burst."""
    bursts = max_events_within(arrived, BURST_SECONDS / 5)
    found: dict[str, Any] = {
        "events": len(arrived),
        "seconds": round(arrived[-1] - arrived[0], 3),
        "mean_percent": percent((len(arrived) - 1) / (arrived[-1] - arrived[0]), rate) if len(arrived) > 1 else None,
        "most_within_1_ms": bursts,
        "windows": {},
    }
    goals = {"burst": bursts <= (1 + sharers) * max(rate * BURST_SECONDS, 1)}
    for seconds in WINDOWS_SECONDS:
        count = round(rate * seconds)
        if len(arrived) <= count:
            continue
        off = [percent(seconds, end - begin) for begin, end in zip(arrived, arrived[count:], strict=False)]
        found["windows"][str(seconds)] = {
            "fastest_percent": max(off),
            "slowest_percent": min(off),
            "median_percent": round(statistics.median(off), 3),
            "share_within": round(statistics.fmean(abs(each) <= TOLERANCE_PERCENT for each in off), 4),
        }
        goals[f"{seconds}_s_never_faster"] = max(off) <= TOLERANCE_PERCENT
        goals[f"{seconds}_s_never_slower"] = min(off) >= -TOLERANCE_PERCENT
    return found | {"goals": goals}


def percent(measured: float, target: float) -> float:
    return round((measured / target - 1) * 100, 3)


def max_events_within(times: Sequence[float], seconds: float) -> int:
    """Return the maximum number of events in any period of that length."""
    return max(bisect_right(times, time + seconds, index) - index for index, time in enumerate(times))


def show(name: str, rate: int, found: dict[str, Any]) -> None:
    windows = "  ".join(
        f"{seconds:>2} s {window['slowest_percent']:+7.2f} … {window['fastest_percent']:+5.2f} % "
        f"({window['share_within']:.1%} within)"
        for seconds, window in found["windows"].items()
    )
    missed = [goal for goal, met in found["goals"].items() if not met]
    print(
        f"{name:9s} {rate:6,}/s  mean {found['mean_percent']:+.3f} %  {windows}  burst {found['most_within_1_ms']}  "
        f"{found['drops']} drops  oversleep {max(found['oversleep_ms']):.0f} ms"
        f"{'  misses ' + ', '.join(missed) if missed else ''}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=62.0, help="duration of each run; more than 60 for windows of 60 s"
    )
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="events per second")
    parser.add_argument("--only", default=",".join(ARRANGEMENTS), help="arrangements of senders")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="run the resend and the receiver with real-time priority, so that a busy machine does not matter",
    )
    parser.add_argument("--keep", type=Path, help="folder that keeps the broker's records for the next run")
    parser.add_argument("--output", type=Path, default=Path("build/bench/pace.json"))
    options = parser.parse_args()
    enter_own_network()
    tools = options.output.parent / "pace"
    tools.mkdir(parents=True, exist_ok=True)
    rates = [int(rate) for rate in options.rates.split(",")]
    found: dict[str, Any] = {
        "machine": {"before": machine()},
        "seconds": options.seconds,
        "realtime": options.realtime,
        "paces": {},
    }
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, KafkaBroker(options.keep) as kafka:
        bench = Bench(kafka, Path(folder), compile_program("clocked_receiver", tools), realtime=options.realtime)
        bench.fill(round(max(rates) * options.seconds) + 1)
        for name in options.only.split(","):
            for rate in rates:
                result = bench.measure(ARRANGEMENTS[name], rate, options.seconds)
                found["paces"].setdefault(name, {})[str(rate)] = result
                show(name, rate, result)
    found["machine"]["after"] = machine()
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{options.output} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
