"""Owns rounds in which a parallel resend with key rotation is ended at a random moment, and what must be true after it.

Must not import the product: report and checkpoint are read as the formats say, arrivals as they are on the wire.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.story.resending import Resend, ids_of

if TYPE_CHECKING:
    import random
    import subprocess
    from collections.abc import Callable

    from kit.network.listener import Listener
    from kit.story.resending import Ended

PARTITIONS, EVENTS = 4, 2500
MOST_SECONDS = 5.0
"""From the signal to the end of everything."""
WAYS = ("SIGTERM", "SIGINT", "Ctrl-C", "SIGTERM twice", "SIGKILL of a worker", "SIGKILL of the parent", "nothing")
CERTIFICATE = Path(__file__).parents[2] / "unit" / "vectors" / "test-cert.pem"
_EXIT_CODES = {
    "SIGTERM": {143},
    "SIGINT": {130},
    "Ctrl-C": {130},
    # The second one may meet a Python that has taken its handlers down; a shell calls that 143, too.
    "SIGTERM twice": {143, -signal.SIGTERM},
    "SIGKILL of a worker": {143},
    "nothing": set[int](),
}


@dataclass
class Rounds:
    """Rounds with one topic, which holds `EVENTS` events in each of its `PARTITIONS`."""

    topic: str
    folder: Path
    settings: dict[str, Any]
    """Where Kafka and the receiver are."""
    listener: Listener
    chance: random.Random
    ways: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    repeated: int = 0
    unreported: int = 0
    """Events that arrived and that the first report does not have: cut batches."""

    def one(self, number: int, way: str | None = None) -> list[str]:
        """Do one round, and say what was wrong."""
        way = way or self.chance.choice(WAYS)
        self.ways[way] += 1
        place = self.folder / f"round-{number}"
        place.mkdir()
        workers, eps = self.chance.choice((2, 3, 4)), self.chance.choice((600, 1500, 4000, 0))
        if way == "nothing":
            eps = 4000
        resend = Resend(place, self.settings)
        chosen = {
            "resendFileName": resend.bundle({(self.topic, n): [[0, EVENTS - 1]] for n in range(PARTITIONS)}),
            "checkpoint": place / "checkpoint",
            "parallelism": workers,
            "encryption": True,
            "publicKeyFile": CERTIFICATE,
            "generateNewSymmetricKeyEvery": 1,
            "keyRepeats": self.chance.choice((1, 2)),
            "keySettle": 0.1,
        }
        self.listener.forget()
        batch = eps // 20 if eps else 16_000
        problems = self._first(resend, chosen | {"eps": eps}, way, workers, batch)
        again = self._again(resend, chosen | {"keyRepeats": 1, "eps": 0})
        came = Counter(ids_of(self.listener.settled(0.2)))
        if again.exit_code != 0 or again.ledger["sent"] != PARTITIONS * EVENTS:
            problems.append(f"the next run ended with {again.exit_code}: {again.stderr[-2000:]}")
        if len(came) != PARTITIONS * EVENTS:
            problems.append(f"{PARTITIONS * EVENTS - len(came)} events never arrived")
        repeated = came.total() - len(came)
        self.repeated += repeated
        if repeated > _most_cut(way, workers) * batch:
            problems.append(f"{repeated} events came again")
        return [f"round {number} ({way}, {workers} workers, eps {eps}): {problem}" for problem in problems]

    def _first(self, resend: Resend, settings: dict[str, Any], way: str, workers: int, batch: int) -> list[str]:
        process = resend.start(**settings, own_group=True)
        _wait(lambda: _listens(process.pid), process)
        if way == "SIGKILL of a worker":
            _wait(lambda: bool(_children(process.pid)), process)
        time.sleep(self.chance.choice((0.0, 0.5, 1.0, 2.5)) + self.chance.random())
        children = _children(process.pid)
        began = time.monotonic()
        struck = self._strike(process, way, children)
        ended = resend.ended(process, timeout_seconds=90)
        if way == "SIGKILL of the parent":
            while any(map(_lives, children)) and time.monotonic() - began < MOST_SECONDS * 2:
                time.sleep(0.02)
        seconds = time.monotonic() - began
        problems = []
        if struck:
            self.slowest_seconds = max(self.slowest_seconds, seconds)
            if seconds > MOST_SECONDS:
                problems.append(f"it ended {seconds:.1f} s after its signal")
        if any(map(_lives, children)):
            problems.append("it left processes behind")
        if way == "SIGKILL of the parent" and struck:
            return problems
        problems += _wrong_with(ended, way if struck else "nothing")
        if ended.report is not None:
            problems += self._compared(ended, resend.folder / "checkpoint", way, workers, batch)
        return problems

    def _strike(self, process: subprocess.Popen[str], way: str, children: list[int]) -> bool:
        """End it in one of the `WAYS`; ``False`` when nothing was there to be ended."""
        if process.poll() is not None or way == "nothing":
            return False
        if way == "SIGKILL of a worker":
            if not children:
                return False
            return _killed(self.chance.choice(children))
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

    def _compared(self, ended: Ended, checkpoint: Path, way: str, workers: int, batch: int) -> list[str]:
        """Compare, offset by offset, what the report says, what the checkpoint says, and what arrived."""
        problems = []
        assert ended.report is not None
        if ended.report["mode"] is None:  # The signal came while the bundle was read: nobody knows what is wanted.
            return [f"{sort} arrived" for sort in sorted({str(each[0]) for each in self.listener.settled(0.2)})]
        reported = _reported(ended)
        if ended.ledger["planned"] != PARTITIONS * EVENTS:
            problems.append(f"planned is {ended.ledger['planned']}")
        if list(checkpoint.parent.glob("checkpoint.shard-*")):
            problems.append("files of workers are left beside the checkpoint")
        if checkpoint.exists() and (kept := _kept(checkpoint, self.topic)) != reported:
            problems.append(f"report and checkpoint differ: {_sizes(reported)} and {_sizes(kept)}")
        came = Counter(ids_of(self.listener.settled(0.2)))
        arrived = {
            partition: {offset for offset in range(EVENTS) if f"{self.topic}_{partition}_{offset}" in came}
            for partition in range(PARTITIONS)
        }
        cut = 0
        for partition in range(PARTITIONS):
            if missing := reported[partition] - arrived[partition]:
                problems.append(f"{len(missing)} events of partition {partition} are reported and did not arrive")
            more = arrived[partition] - reported[partition]
            self.unreported += len(more)
            cut += bool(more)
            if len(more) > batch:
                problems.append(f"{len(more)} events of partition {partition} arrived and are not reported")
        if cut > _most_cut(way, workers):
            problems.append(f"the batches of {cut} workers were cut")
        return problems

    def _again(self, resend: Resend, settings: dict[str, Any]) -> Ended:
        (resend.folder / "report.json").unlink(missing_ok=True)
        return resend.run(**settings)


def _wrong_with(ended: Ended, way: str) -> list[str]:
    """What is wrong with the end of one that was not killed itself; all may have been done when the signal came."""
    problems = []
    if ended.exit_code not in _EXIT_CODES[way] | {0}:
        problems.append(f"it ended with {ended.exit_code}: {ended.stderr[-2000:]}")
    if ended.report is None:
        problems.append(f"it wrote no report: {ended.stderr[-2000:]}")
    if "Traceback" in ended.stderr:
        problems.append(ended.stderr[-3000:])
    return problems


def _most_cut(way: str, workers: int) -> int:
    """How many workers may have been in the middle of a batch that nobody gave account of."""
    return {"SIGKILL of a worker": 1, "SIGKILL of the parent": workers, "SIGTERM twice": workers}.get(way, 0)


def _reported(ended: Ended) -> dict[int, set[int]]:
    assert ended.report is not None
    return {
        entry["partition"]: {o for first, last in entry["ranges"].get("sent", ()) for o in range(first, last + 1)}
        for entry in ended.report["partitions"]
    }


def _kept(checkpoint: Path, topic: str) -> dict[int, set[int]]:
    """What a checkpoint says was sent, of a resend that wants offsets from 0 on and finds all of them."""
    cursors = dict.fromkeys(range(PARTITIONS), 0)
    for line in checkpoint.read_text().splitlines():
        for part in json.loads(line)["partitions"]:
            assert part["topic"] == topic
            cursors[part["partition"]] = max(cursors[part["partition"]], part.get("cursor", 0))
    return {partition: set(range(cursor)) for partition, cursor in cursors.items()}


def _sizes(offsets: dict[int, set[int]]) -> dict[int, int]:
    return {partition: len(those) for partition, those in offsets.items()}


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _listens(pid: int) -> bool:
    """Whether a process has begun to take SIGTERM."""
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
            raise TimeoutError("the resend did not begin to listen to signals within 30 s")
        time.sleep(0.005)
