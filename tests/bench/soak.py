"""Runs resends for many minutes while brokers, link and senders fail, and observes the senders' memory and descriptors.

`make soak` writes build/bench/soak.json and fails if an event was lost or sent more often than documented, or if memory
or descriptors of the sender grew. One sender runs from the beginning to the end and must survive all faults; others are
killed and restarted in rounds. Everything runs in a network namespace of its own: the machine's network is not touched,
and root is not needed if user namespaces are allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.kafka.cluster import KafkaCluster
from kit.story.resending import Resend

STEADY, ROUNDS = "steady", "rounds"
STEADY_PARTITIONS, STEADY_EPS = 2, 1000
ROUND_PARTITIONS, ROUND_EVENTS = 4, 3000
MAX_GROWTH_MIB, MAX_GROWTH_DESCRIPTORS = 16, 4
"""Maximum growth from the second to the last fifth of the time (medians)."""
_HEADERS = 14 + 20 + 8
_ETHERTYPE_IPV4 = 0x0800
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_TEMPORARY_ERRORS = ("in use by another sender", "There is no route to", "is down")
_STOPPED = {-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM}
"""Possible exit codes of a stopped resend; if it has just started, it has no handlers yet."""
_NEIGHBOUR = "ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev near"


def run_all(commands: str) -> None:
    for command in commands.split(";"):
        subprocess.run(command.split(), check=True)


class Wire:
    """A link from `near` to `far` that counts how often each event arrives."""

    def __init__(self) -> None:
        run_all(
            "ip link set lo up;ip link add near type veth peer name far;ip link set near gso_max_segs 1;"
            f"ip link set near up;ip link set far up;ip addr add 10.9.0.1/24 dev near;{_NEIGHBOUR}"
        )
        self._far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_IPV4))
        self._far.bind(("far", 0))
        self._far.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        self.overflowed = 0
        """Frames lost because this program read too slowly, not because of the sender."""
        self._arrived: dict[str, Counter[str]] = {STEADY: Counter(), ROUNDS: Counter()}
        self.last_arrival = time.monotonic()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            datagram = self._far.recv(70_000)[_HEADERS:]
            identity = datagram[7 : 7 + int.from_bytes(datagram[5:7], "big")].decode(errors="replace")
            counts = self._arrived.get(identity.partition("_")[0])
            if counts is not None:
                counts[identity] += 1
                self.last_arrival = time.monotonic()

    def take(self, topic: str) -> Counter[str]:
        """Return the events of `topic` since the last call; only while nothing is being sent to it."""
        time.sleep(0.5)
        arrived, self._arrived[topic] = self._arrived[topic], Counter()
        return arrived

    def pause(self, seconds: float) -> None:
        run_all("ip link set near down")
        time.sleep(seconds)
        run_all(f"ip link set near up;{_NEIGHBOUR}")

    def count_overflow(self) -> int:
        """Return the number of frames that the kernel dropped so far."""
        statistics_bytes = self._far.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.overflowed += struct.unpack("II", statistics_bytes)[1]
        return self.overflowed


def with_children(pid: int) -> list[int]:
    """Return the IDs of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *map(int, children)]


@dataclass
class ResourceSamples:
    """Memory and descriptors of the steady sender's processes, once a second."""

    mib: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def watch(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            try:
                pids = with_children(process.pid)
                kib = [
                    int(line.split()[1])
                    for pid in pids
                    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
                    if line.startswith("VmRSS:")
                ]
                descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
            except OSError:  # the process has just ended
                continue
            if len(pids) > 1:
                self.mib.append(sum(kib) / 1024)
                self.descriptors.append(descriptors)
            time.sleep(1)

    @staticmethod
    def _summary(values: list[float] | list[int]) -> dict[str, float]:
        fifth = max(len(values) // 5, 1)
        early, late = statistics.median(values[fifth : 2 * fifth]), statistics.median(values[-fifth:])
        return {"early": round(early, 1), "late": round(late, 1), "most": round(max(values), 1)}

    def as_json(self) -> dict[str, Any]:
        return {
            "samples": len(self.mib),
            "rss_mib": self._summary(self.mib),
            "descriptors": self._summary(self.descriptors),
        }


@dataclass
class Rounds:
    """Resends that are stopped, killed and restarted until they are complete."""

    resend: Resend
    wire: Wire
    chance: random.Random
    problems: list[str]
    done: int = 0
    starts: int = 0
    repeated: int = 0
    current: subprocess.Popen[str] | None = None
    kills: int = 0
    over: bool = False

    def run(self) -> None:
        while not self.over:
            try:
                self._run_round()
            except Exception as error:  # noqa: BLE001 -- reported as a problem, because this is a thread
                self.problems.append(f"round {self.done}: {error!r}")
                return

    def _run_round(self) -> None:
        eps, self.kills = self.chance.choice((1500, 3000, 6000)), 0
        gaps = {(ROUNDS, partition): [[0, ROUND_EVENTS - 1]] for partition in range(ROUND_PARTITIONS)}
        settings = {
            "resendFileName": self.resend.bundle(gaps),
            "checkpoint": self.resend.folder / f"checkpoint-{self.done}",
            "eps": eps,
            "parallelism": self.chance.choice((1, 2)),
        }
        while True:
            self.starts += 1
            self.current = self.resend.start(**settings)
            ended = self.resend.ended(self.current, timeout_seconds=600)
            # Workers of a killed resend notice after their batch that it is gone; until then they lock the checkpoint.
            # A resend that starts while the link is down fails, because it cannot check the interface.
            is_temporary = ended.exit_code == 2 and any(words in ended.stderr for words in _TEMPORARY_ERRORS)
            if not is_temporary and ended.exit_code not in _STOPPED:
                break
            time.sleep(1)
        planned = ROUND_PARTITIONS * ROUND_EVENTS
        if ended.exit_code != 0 or ended.ledger["sent"] != planned:
            self.problems.append(f"round {self.done} ended with {ended.exit_code}: {ended.stderr[-2000:]}")
        arrived = self.wire.take(ROUNDS)
        repeated = arrived.total() - len(arrived)
        self.repeated += repeated
        if len(arrived) != planned and not self.wire.count_overflow():
            self.problems.append(f"round {self.done}: {planned - len(arrived)} events did not arrive")
        if repeated > self.kills * eps:
            self.problems.append(f"round {self.done}: {repeated} duplicate events after {self.kills} kills at {eps}/s")
        self.done += 1


class Faults:
    """Injects one fault at a time."""

    def __init__(self, cluster: KafkaCluster, wire: Wire, steady: subprocess.Popen[str], rounds: Rounds) -> None:
        self._cluster, self._wire, self._steady, self._rounds = cluster, wire, steady, rounds
        self.counts: Counter[str] = Counter()
        self.kinds: dict[str, Callable[[random.Random], None]] = {
            "broker killed": self._kill_broker,
            "steady sender suspended": self._suspend,
            "link down": lambda chance: wire.pause(chance.uniform(0.5, 3)),
            "sender killed": lambda _: self._signal(signal.SIGKILL),
            "sender terminated": lambda _: self._signal(signal.SIGTERM),
        }

    def inject(self, chance: random.Random) -> None:
        kind = chance.choice(list(self.kinds))
        self.kinds[kind](chance)
        self.counts[kind] += 1

    def _kill_broker(self, chance: random.Random) -> None:
        self._cluster.kill(chance.randrange(len(self._cluster.nodes)))
        time.sleep(chance.uniform(1, 5))
        self._cluster.start()

    def _suspend(self, chance: random.Random) -> None:
        if self._steady.poll() is None:
            for number, wait in ((signal.SIGSTOP, chance.uniform(1, 5)), (signal.SIGCONT, 0.0)):
                for pid in with_children(self._steady.pid):
                    os.kill(pid, number)
                time.sleep(wait)

    def _signal(self, number: signal.Signals) -> None:
        process = self._rounds.current
        if process is not None and process.poll() is None:
            self._rounds.kills += number == signal.SIGKILL
            process.send_signal(number)


def numbered_values(count: int, length: int) -> Iterator[bytes]:
    return (b"%d " % number + bytes(length) for number in range(count))


def soak(minutes: float, seed: int, folder: Path) -> dict[str, Any]:
    chance, problems = random.Random(seed), list[str]()
    partition_events = int(minutes * 60 * STEADY_EPS * 0.8 / STEADY_PARTITIONS)
    wire = Wire()
    with KafkaCluster(3, folder / "kafka") as cluster:
        for topic, partitions, events in (
            (STEADY, STEADY_PARTITIONS, partition_events),
            (ROUNDS, ROUND_PARTITIONS, ROUND_EVENTS),
        ):
            cluster.create_topic(topic, partitions)
            for partition in range(partitions):
                cluster.produce(topic, numbered_values(events, 180), partition=partition)
        settings = {
            "bootstrapServers": cluster.bootstrap,
            "targetIP": "10.9.0.2",
            "targetPort": 5000,
            "stallTimeout": 300,
            "statusPackets": False,
        }
        resends = [Resend(folder / name, settings) for name in (STEADY, ROUNDS)]
        for resend in resends:
            resend.folder.mkdir()
        began = time.monotonic()
        process = resends[0].start(
            resendFileName=resends[0].bundle(
                {(STEADY, n): [[0, partition_events - 1]] for n in range(STEADY_PARTITIONS)}
            ),
            checkpoint=resends[0].folder / "checkpoint",
            eps=STEADY_EPS,
            parallelism=STEADY_PARTITIONS,
        )
        samples, rounds = ResourceSamples(), Rounds(resends[1], wire, random.Random(seed + 1), problems)
        sampling = threading.Thread(target=samples.watch, args=(process,))
        round_thread = threading.Thread(target=rounds.run)
        sampling.start()
        round_thread.start()
        faults = Faults(cluster, wire, process, rounds)
        while time.monotonic() - began < minutes * 60:
            time.sleep(chance.uniform(1, 5))
            faults.inject(chance)
            print(f"{time.monotonic() - began:6.0f} s  {dict(faults.counts)}  {rounds.done} rounds", flush=True)
        rounds.over = True
        round_thread.join()
        ended = resends[0].ended(process, timeout_seconds=minutes * 120 + 300)
        sampling.join()
        seconds = time.monotonic() - began
    arrived = wire.take(STEADY)
    overflowed = wire.count_overflow()
    planned = partition_events * STEADY_PARTITIONS
    if ended.exit_code != 0 or ended.ledger["sent"] != planned:
        problems.append(f"the steady sender ended with {ended.exit_code}: {ended.stderr[-2000:]}")
    if len(arrived) != planned and not overflowed:
        problems.append(f"{planned - len(arrived)} events of the steady sender did not arrive")
    if arrived.total() != len(arrived):
        problems.append(
            f"{arrived.total() - len(arrived)} events of the steady sender arrived twice, although it was not killed"
        )
    usage = samples.as_json()
    for name, max_growth in (("rss_mib", MAX_GROWTH_MIB), ("descriptors", MAX_GROWTH_DESCRIPTORS)):
        if usage[name]["late"] > usage[name]["early"] + max_growth:
            problems.append(f"{name} of the steady sender grew: {usage[name]}")
    return {
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "seed": seed,
        "faults": dict(faults.counts),
        "steady": {"planned": planned, "arrived": len(arrived), "exit_code": ended.exit_code, **usage},
        "rounds": {"done": rounds.done, "starts": rounds.starts, "repeated": rounds.repeated},
        "overflowed": overflowed,
        "problems": problems,
        "ok": not problems,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES", "20")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SOAK_SEED", str(int(time.time())))))
    parser.add_argument("--output", type=Path, default=Path("build/bench/soak.json"))
    options = parser.parse_args()
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        command = ["unshare", "-n" if os.geteuid() == 0 else "-rn", sys.executable, sys.argv[0]]
        arguments = [f"--minutes={options.minutes}", f"--seed={options.seed}", f"--output={options.output}"]
        return subprocess.run([*command, *arguments], check=False).returncode
    with tempfile.TemporaryDirectory(prefix="gapless-soak-") as folder:
        found = soak(options.minutes, options.seed, Path(folder))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
