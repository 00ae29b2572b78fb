"""Rounds that end a parallel resend with key rotation at a random moment, and then check its invariants.

Must not import the product: it parses report, checkpoint and datagrams by their documented formats.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.machine.processes import is_alive
from kit.story.resending import Ended, Resend, ids_of

if TYPE_CHECKING:
    import random
    import subprocess

    from kit.network.listener import Listener

PARTITIONS, EVENTS = 4, 2500
MAX_SECONDS = 5.0
"""From the signal to the end of all processes."""
WAYS = ("SIGTERM", "SIGINT", "Ctrl-C", "SIGTERM twice", "SIGKILL of a worker", "SIGKILL of the parent", "nothing")
CERTIFICATE = Path(__file__).parents[2] / "unit" / "vectors" / "test-cert.pem"
_EXIT_CODES = {
    "SIGTERM": {143},
    "SIGINT": {130},
    "Ctrl-C": {130},
    # The second one may arrive after Python has removed its handlers; a shell reports 143 for that, too.
    "SIGTERM twice": {143, -signal.SIGTERM},
    "SIGKILL of a worker": {143},
    "nothing": set[int](),
}


@dataclass
class Rounds:
    """Rounds with one topic that has `EVENTS` events in each of its `PARTITIONS`."""

    topic: str
    folder: Path
    settings: dict[str, Any]
    """The addresses of Kafka and the receiver."""
    listener: Listener
    chance: random.Random
    ways: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    repeated: int = 0
    unreported: int = 0
    """Events that arrived but are not in the first report, because a batch was interrupted."""

    def run_round(self, number: int, way: str | None = None) -> list[str]:
        """Run one round and return the violations."""
        way = way or self.chance.choice(WAYS)
        self.ways[way] += 1
        folder = self.folder / f"round-{number}"
        folder.mkdir()
        workers, eps = self.chance.choice((2, 3, 4)), self.chance.choice((600, 1500, 4000, 0))
        if way == "nothing":
            eps = 4000
        resend = Resend(folder, self.settings)
        settings = {
            "resendFileName": resend.bundle({(self.topic, n): [[0, EVENTS - 1]] for n in range(PARTITIONS)}),
            "checkpoint": folder / "checkpoint",
            "parallelism": workers,
            "encryption": True,
            "publicKeyFile": CERTIFICATE,
            "generateNewSymmetricKeyEvery": 1,
            "keyRepeats": self.chance.choice((1, 2)),
            "keySettle": 0.1,
        }
        self.listener.forget()
        batch = eps // 20 if eps else 16_000
        problems = self._interrupted_run(resend, settings | {"eps": eps}, way, workers, batch)
        second = self._second_run(resend, settings | {"keyRepeats": 1, "eps": 0})
        received = Counter(ids_of(self.listener.settled(0.2)))
        if second.exit_code != 0 or second.ledger["sent"] != PARTITIONS * EVENTS:
            problems.append(f"the second run ended with {second.exit_code}: {second.stderr[-2000:]}")
        if len(received) != PARTITIONS * EVENTS:
            problems.append(f"{PARTITIONS * EVENTS - len(received)} events never arrived")
        repeated = received.total() - len(received)
        self.repeated += repeated
        if repeated > _max_interrupted_batches(way, workers) * batch:
            problems.append(f"{repeated} events arrived more than once")
        return [f"round {number} ({way}, {workers} workers, eps {eps}): {problem}" for problem in problems]

    def _interrupted_run(
        self, resend: Resend, settings: dict[str, Any], way: str, workers: int, batch: int
    ) -> list[str]:
        process = resend.start(**settings, own_group=True)
        _wait(lambda: _handles_sigterm(process.pid), process)
        if way == "SIGKILL of a worker":
            _wait(lambda: bool(_children(process.pid)), process)
        time.sleep(self.chance.choice((0.0, 0.5, 1.0, 2.5)) + self.chance.random())
        children = _children(process.pid)
        began = time.monotonic()
        interrupted = self._interrupt(process, way, children)
        ended = resend.ended(process, timeout_seconds=90)
        if way == "SIGKILL of the parent":
            while any(map(is_alive, children)) and time.monotonic() - began < MAX_SECONDS * 2:
                time.sleep(0.02)
        seconds = time.monotonic() - began
        problems = []
        if interrupted:
            self.slowest_seconds = max(self.slowest_seconds, seconds)
            if seconds > MAX_SECONDS:
                problems.append(f"it ended {seconds:.1f} s after the signal")
        if any(map(is_alive, children)):
            problems.append("child processes are still running")
        if way == "SIGKILL of the parent" and interrupted:
            return problems
        problems += _exit_problems(ended, way if interrupted else "nothing")
        if ended.report is not None:
            problems += self._compare(ended, resend.folder / "checkpoint", way, workers, batch)
        return problems

    def _interrupt(self, process: subprocess.Popen[str], way: str, children: list[int]) -> bool:
        """End the process in one of the `WAYS`; return False if it had already ended."""
        if process.poll() is not None or way == "nothing":
            return False
        if way == "SIGKILL of a worker":
            if not children:
                return False
            return _kill(self.chance.choice(children))
        if way == "SIGKILL of the parent":
            process.kill()
        elif way == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.Signals[way.split(maxsplit=1)[0]])
            if way.endswith("twice"):
                time.sleep(self.chance.uniform(0.0, 0.3))
                process.send_signal(signal.SIGTERM)
        return True

    def _compare(self, ended: Ended, checkpoint: Path, way: str, workers: int, batch: int) -> list[str]:
        """Compare the report, the checkpoint and the received events, offset by offset."""
        problems = []
        assert ended.report is not None
        if ended.report["mode"] is None:  # The signal arrived while the bundle was read: nothing may have been sent.
            return [
                f"a packet of type {kind} arrived"
                for kind in sorted({datagram[0] for datagram in self.listener.settled(0.2)})
            ]
        reported = _reported(ended)
        if ended.ledger["planned"] != PARTITIONS * EVENTS:
            problems.append(f"planned is {ended.ledger['planned']}")
        if list(checkpoint.parent.glob("checkpoint.shard-*")):
            problems.append("checkpoint files of workers were not removed")
        if checkpoint.exists() and (saved := _sent_offsets(checkpoint, self.topic)) != reported:
            problems.append(f"report and checkpoint differ: {_sizes(reported)} and {_sizes(saved)}")
        received = set(ids_of(self.listener.settled(0.2)))
        arrived = {
            partition: {offset for offset in range(EVENTS) if f"{self.topic}_{partition}_{offset}" in received}
            for partition in range(PARTITIONS)
        }
        interrupted_batches = 0
        for partition in range(PARTITIONS):
            if missing := reported[partition] - arrived[partition]:
                problems.append(f"{len(missing)} events of partition {partition} are reported and did not arrive")
            unreported = arrived[partition] - reported[partition]
            self.unreported += len(unreported)
            interrupted_batches += bool(unreported)
            if len(unreported) > batch:
                problems.append(f"{len(unreported)} events of partition {partition} arrived and are not reported")
        if interrupted_batches > _max_interrupted_batches(way, workers):
            problems.append(f"the batches of {interrupted_batches} workers were interrupted")
        return problems

    def _second_run(self, resend: Resend, settings: dict[str, Any]) -> Ended:
        (resend.folder / "report.json").unlink(missing_ok=True)
        return resend.run(**settings)


def _exit_problems(ended: Ended, way: str) -> list[str]:
    """Return what is wrong with the exit of a process that was not killed; it may have finished before the signal."""
    problems = []
    if ended.exit_code not in _EXIT_CODES[way] | {0}:
        problems.append(f"it ended with {ended.exit_code}: {ended.stderr[-2000:]}")
    if ended.report is None:
        problems.append(f"it wrote no report: {ended.stderr[-2000:]}")
    if "Traceback" in ended.stderr:
        problems.append(ended.stderr[-3000:])
    return problems


def _max_interrupted_batches(way: str, workers: int) -> int:
    """Return how many workers may have been in the middle of a batch that no report contains."""
    return {"SIGKILL of a worker": 1, "SIGKILL of the parent": workers, "SIGTERM twice": workers}.get(way, 0)


def _reported(ended: Ended) -> dict[int, set[int]]:
    assert ended.report is not None
    return {
        entry["partition"]: {o for first, last in entry["ranges"].get("sent", ()) for o in range(first, last + 1)}
        for entry in ended.report["partitions"]
    }


def _sent_offsets(checkpoint: Path, topic: str) -> dict[int, set[int]]:
    """Return the sent offsets in a checkpoint of a resend that starts at offset 0 and finds every event."""
    cursors = dict.fromkeys(range(PARTITIONS), 0)
    for line in checkpoint.read_text().splitlines():
        for part in json.loads(line)["partitions"]:
            assert part["topic"] == topic
            cursors[part["partition"]] = max(cursors[part["partition"]], part.get("cursor", 0))
    return {partition: set(range(cursor)) for partition, cursor in cursors.items()}


def _sizes(offsets: dict[int, set[int]]) -> dict[int, int]:
    return {partition: len(sent) for partition, sent in offsets.items()}


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _handles_sigterm(pid: int) -> bool:
    """Whether the process has installed a handler for SIGTERM, or has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not condition() and process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the resend did not install its signal handlers within 30 s")
        time.sleep(0.005)
