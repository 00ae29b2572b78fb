"""The proof that a running resend follows its rate file, however many processes and programs it has."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.story.resending import Resend, ids_of

if TYPE_CHECKING:
    import subprocess

    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

PARTITIONS, EVENTS = 3, 6000
SLOW = "eps=2"
"""At this rate the whole would take hours."""
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def filled(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"rates-{os.getpid()}", PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(name, (b"%d of %d" % (offset, partition) for offset in range(EVENTS)), partition=partition)
    return name


class Told:
    """The log lines of a program, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next line about `event`; queue.Empty if it never comes."""
        while True:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            if line.startswith("{") and json.loads(line)["event"] == event:
                found: dict[str, Any] = json.loads(line)
                return found

    def end(self) -> int:
        """Wait for the end of the program."""
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._reading.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code


def mounted(folder: Path, content: str) -> Path:
    """Put `content` where a pod finds an entry of a ConfigMap, or replace it, the way the kubelet does."""
    folder.mkdir(exist_ok=True)
    version = folder / f"..{time.monotonic_ns()}"
    version.mkdir()
    (version / "rates.properties").write_text(content)
    new = folder / "..data_tmp"
    new.symlink_to(version.name)
    new.rename(folder / "..data")
    file = folder / "rates.properties"
    if not file.is_symlink():
        file.symlink_to("..data/rates.properties")
    return file


def bundle(resend: Resend, topic: str) -> Path:
    return resend.bundle({(topic, partition): [[0, EVENTS - 1]] for partition in range(PARTITIONS)})


def everything(topic: str) -> set[str]:
    return {f"{topic}_{partition}_{offset}" for partition in range(PARTITIONS) for offset in range(EVENTS)}


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.alone
def test_a_resend_follows_its_rate_file(filled: str, resend: Resend, listener: Listener, processes: int) -> None:
    file = mounted(resend.folder / "settings", SLOW)
    told = Told(resend.start(resendFileName=bundle(resend, filled), rateFile=file, parallelism=processes, eps=1))
    listener.wait_for(3)
    mounted(resend.folder / "settings", "eps=as fast as you can")
    assert "must be a number" in told.wait_for("the rates stay unchanged")["reason"]
    told.process.send_signal(signal.SIGHUP)
    assert "must be a number" in told.wait_for("the rates stay unchanged")["reason"]
    assert told.process.poll() is None
    assert len(listener.arrivals) < EVENTS
    mounted(resend.folder / "settings", "eps=0")
    assert told.wait_for("the rates have changed")["eps"] == 0
    assert told.end() == 0
    assert set(ids_of(listener.settled())) == everything(filled)


@pytest.mark.alone
def test_programs_with_one_pace_file_follow_one_rate_file(filled: str, resend: Resend, listener: Listener) -> None:
    file = mounted(resend.folder / "settings", SLOW)
    shared = {"resendFileName": bundle(resend, filled), "rateFile": file, "paceFile": resend.folder / "pace"}
    programs = [
        Told(resend.start(**shared, shardCount=PARTITIONS, shardIndex=index, report=None))
        for index in range(PARTITIONS)
    ]
    listener.wait_for(3)
    assert all(told.process.poll() is None for told in programs)
    mounted(resend.folder / "settings", "bitsPerSecond=100M\neps=0")
    for told in programs:
        assert told.wait_for("the rates have changed")["bitsPerSecond"] == 1e8
        assert told.end() == 0
    assert set(ids_of(listener.settled())) == everything(filled)


@pytest.mark.alone
def test_a_lower_rate_holds_at_once_and_does_not_keep_it_from_stopping(
    filled: str, resend: Resend, listener: Listener
) -> None:
    file = mounted(resend.folder / "settings", "eps=1000")
    checkpoint = {"checkpoint": resend.folder / "checkpoint", "resendFileName": bundle(resend, filled)}
    told = Told(resend.start(**checkpoint, rateFile=file))
    listener.wait_for(500)
    mounted(resend.folder / "settings", "eps=0.05")
    told.wait_for("the rates have changed")
    begun, before = time.monotonic(), len(listener.settled())
    told.process.send_signal(signal.SIGTERM)
    assert told.end() == 143, "what is left of the batch would take a quarter of an hour"
    after = len(listener.settled())
    assert after - before <= 0.05 * (time.monotonic() - begun) + 5 + 2, "a burst that was let through, and the farewell"
    again = resend.run(**checkpoint)
    assert again.exit_code == 0, again.stderr
    assert set(ids_of(listener.settled())) == everything(filled)


def test_a_rate_file_that_is_wrong_from_the_start_sends_nothing(
    filled: str, resend: Resend, listener: Listener
) -> None:
    file = mounted(resend.folder / "settings", "targetPort=7")
    ended = resend.run(resendFileName=bundle(resend, filled), rateFile=file)
    assert ended.exit_code == 2
    assert "sets 'targetPort'; only eps" in ended.stderr
    assert not listener.settled()


def test_without_a_rate_nothing_leaves_this_machine(filled: str, resend: Resend, listener: Listener) -> None:
    checkpoint = resend.folder / "checkpoint"
    ended = resend.run(resendFileName=bundle(resend, filled), checkpoint=checkpoint, unlimited=None)
    assert ended.exit_code == 2
    assert "No rate above 0 is set" in ended.stderr
    assert not listener.settled()
    assert not checkpoint.exists()
    planned = resend.run(resendFileName=bundle(resend, filled), plan=True, report=None)
    assert planned.exit_code == 0, planned.stderr


@pytest.mark.parametrize("processes", [1, 3])
def test_a_link_profile_sets_rate_payload_and_copies(
    filled: str, resend: Resend, listener: Listener, processes: int
) -> None:
    measured = {
        "run": "0000000000000007", "step": 3, "probes": 500, "missing": 1, "datagramsPerSecond": 2500.0,
        "bitsPerSecond": 20_000_000.0, "margin": 0.2, "acceptedLoss": 0.01, "isLimitKnown": True,
    }  # fmt: skip
    profile = {
        "gaplessLinkProfile": 1, "measuredAt": datetime.now(UTC).isoformat(), "measuredBy": "gapless link receive",
        "target": "127.0.0.1", "receiverNic": "", "port": 24117, "payloadSize": 1000, "headerBytes": 28, "copies": 2,
        "datagramsPerSecond": 2000.0, "bitsPerSecond": 16_000_000.0, "measurement": measured,
    }  # fmt: skip
    file = resend.folder / "link-profile.json"
    file.write_text(json.dumps(profile))
    selected = {"topic": filled, "partition": 0, "offsetFrom": 0, "offsetTo": 999}
    ended = resend.run(**selected, linkProfile=file, payloadSize=None, parallelism=processes)
    assert ended.exit_code == 0, ended.stderr
    first = json.loads(ended.stderr.splitlines()[0])
    assert (first["event"], first["eps"], first["copies"]) == ("the link profile sets the rate", 1000.0, 2)
    assert Counter(ids_of(listener.settled())) == dict.fromkeys((f"{filled}_0_{offset}" for offset in range(1000)), 2)
    assert ended.report is not None
    assert ended.report["seconds"] > 0.9, "1,000 events at 1,000 a second, less a burst"
