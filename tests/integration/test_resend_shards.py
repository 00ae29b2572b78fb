"""The proof that programs which know nothing of each other do one resend together, as the pods of a Job do."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.wire.resend_plan import RESEND_PLAN
from kit.machine.processes import wait_until
from kit.peer.receiver import Receiver
from kit.story.resending import Ended, Resend, events_of, ids_of

if TYPE_CHECKING:
    import subprocess

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

VECTORS = Path(__file__).parent.parent / "unit" / "vectors"
PARTITIONS, EVENTS = 5, 1500
SHARDS = 3


@pytest.fixture(scope="module")
def filled(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"shards-{os.getpid()}", PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(name, (b"%d of %d" % (offset, partition) for offset in range(EVENTS)), partition=partition)
    return name


@pytest.fixture
def encryption(resend: Resend) -> dict[str, Any]:
    """The settings to encrypt with one key for all shards, which is in a file."""
    key = resend.folder / "session.key"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    return {"encryption": True, "publicKeyFile": VECTORS / "test-cert.pem", "sessionKeyFile": key}


@dataclass(frozen=True)
class Downstream:
    """A receiver with the private key, the topic that it writes to, and the settings of a resend to it."""

    kafka: KafkaBroker
    receiver: Receiver
    topic: str
    settings: dict[str, Any]

    def check_all_is_there(self) -> None:
        """Every event is there, with its value."""
        got = {message.key().decode(): message.value() for message in self.kafka.read(self.topic)}
        assert got == {
            f"{self.topic}_{partition}_{offset}": b"%d of %d" % (offset, partition)
            for partition in range(PARTITIONS)
            for offset in range(EVENTS)
        }


@pytest.fixture
def downstream(
    filled: str, kafka: KafkaBroker, topic: TopicFactory, resend: Resend, encryption: dict[str, Any]
) -> Iterator[Downstream]:
    arrived = topic(PARTITIONS, prefix="shard-arrived")
    with Receiver(kafka.bootstrap, private_keys=str(VECTORS / "test-private.pem")) as receiver:
        settings = {
            "resendFileName": resend.bundle(wanted(arrived)),
            "topicTranslations": {filled: arrived},
            "targetPort": receiver.port,
            **encryption,
        }
        yield Downstream(kafka, receiver, arrived, settings)


def wanted(topic: str) -> dict[tuple[str, int], list[list[int]]]:
    return {(topic, partition): [[0, EVENTS - 1]] for partition in range(PARTITIONS)}


def everything(topic: str) -> set[str]:
    return {f"{topic}_{partition}_{offset}" for partition in range(PARTITIONS) for offset in range(EVENTS)}


def pods(resend: Resend, count: int = SHARDS, **settings: Any) -> list[subprocess.Popen[str]]:
    """Start every shard as Kubernetes does, with its number in the environment."""
    return [pod(resend, index, count, **settings) for index in range(count)]


def pod(resend: Resend, index: int, count: int = SHARDS, **settings: Any) -> subprocess.Popen[str]:
    shared = {"shardCount": count, "reportLine": True, "report": None, **settings}
    return resend.start(environment={"JOB_COMPLETION_INDEX": str(index)}, **shared)


def partition_of(identity: str) -> int:
    return int(identity.split("_")[-2])


def lines_of(ended: Ended, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def report_of(ended: Ended) -> dict[str, Any]:
    (report,) = lines_of(ended, "report")
    return report


def plan_of(ended: Ended) -> dict[str, Any]:
    (plan,) = lines_of(ended, "plan")
    return plan


def test_shards_send_everything_once_and_say_so_in_their_logs(filled: str, resend: Resend, listener: Listener) -> None:
    bundle = resend.bundle(wanted(filled))
    packed = bundle.with_suffix(".gz")
    packed.write_bytes(gzip.compress(bundle.read_bytes()))
    ended = [
        resend.ended(pod)
        for pod in pods(
            resend,
            resendFileName=packed,
            checkpoint=f"{resend.folder}/state/",
            progressInterval=0.05,
            logLevel="FATAL",  # progress and report are no log lines
        )
    ]
    assert [one.exit_code for one in ended] == [0] * SHARDS, [one.stderr for one in ended]
    sent = Counter(ids_of(listener.settled()))
    assert set(sent) == everything(filled)
    assert set(sent.values()) == {1}
    reports = [report_of(one) for one in ended]
    assert [(report["shard"], report["shards"]) for report in reports] == [(index, SHARDS) for index in range(SHARDS)]
    assert sum(report["ledger"]["sent"] for report in reports) == PARTITIONS * EVENTS
    shares = [{entry["partition"] for entry in report["partitions"]} for report in reports]
    assert sorted(partition for share in shares for partition in share) == list(range(PARTITIONS))
    for index, one in enumerate(ended):
        progress = lines_of(one, "progress")
        assert progress
        assert {(line["shard"], line["shards"]) for line in progress} == {(index, SHARDS)}
    files = sorted(path.name for path in (resend.folder / "state").iterdir() if path.suffix == ".checkpoint")
    assert files == [f"resend.{index}-of-{SHARDS}.checkpoint" for index in range(SHARDS)]


def test_a_shard_that_is_stopped_goes_on_with_its_own_part(filled: str, resend: Resend, listener: Listener) -> None:
    settings = {"resendFileName": resend.bundle(wanted(filled)), "checkpoint": f"{resend.folder}/state/"}
    eps = 600
    plans = [plan_of(resend.ended(pod)) for pod in pods(resend, **settings, plan=True)]
    of_second = {entry["partition"] for entry in plans[1]["partitions"]}

    def sent_by_the_second() -> int:
        return sum(partition_of(name) in of_second for name in ids_of(listener.datagrams))

    running = pods(resend, **settings, eps=eps)
    wait_until(lambda: sent_by_the_second() >= 2 * eps / SHARDS, what="two seconds")
    for number, pod in zip((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), running, strict=True):
        pod.send_signal(number)
    ended = [resend.ended(pod) for pod in running]
    assert [one.exit_code for one in ended] == [143, -9, 143]
    assert report_of(ended[0])["outcome"] == "Stopped"
    assert report_of(ended[0])["reason"] == "Stopped"
    again = [resend.ended(pod) for pod in pods(resend, **settings)]
    assert [one.exit_code for one in again] == [0] * SHARDS
    sent = Counter(ids_of(listener.settled()))
    assert set(sent) == everything(filled)
    repeated = {name for name, count in sent.items() if count > 1}
    assert {partition_of(name) for name in repeated} <= of_second, "only the killed one repeats anything"
    assert len(repeated) <= eps / SHARDS, "less than a second of its share of the pace; without saving it is all"
    third = [resend.ended(pod) for pod in pods(resend, **settings)]
    assert {report_of(one)["outcome"] for one in third} == {"NothingToDo"}


def test_a_checkpoint_of_another_number_of_shards_is_not_taken_for_this_one(filled: str, resend: Resend) -> None:
    settings = {"topic": filled, "partition": 0, "offsetFrom": 0, "offsetTo": 9, "checkpoint": resend.folder / "c"}
    for pod in pods(resend, 2, **settings):
        assert resend.ended(pod).exit_code == 0
    assert {path.name for path in resend.folder.glob("c.*of?2")} == {"c.0-of-2"}, "the other one has nothing to do"
    (resend.folder / "c.0-of-2").rename(resend.folder / "c.0-of-3")
    other = resend.run(**settings, shardCount=3, shardIndex=0)
    assert other.exit_code == 2
    assert "belongs to another resend (shard was 0-of-2 and is 0-of-3)" in other.stderr.replace('"', "")


def test_shards_that_encrypt_with_one_key_are_all_understood(downstream: Downstream, resend: Resend) -> None:
    settings = {**downstream.settings, "paceFile": resend.folder / "pace", "eps": 3000}
    ended = [resend.ended(pod) for pod in pods(resend, **settings)]
    assert [one.exit_code for one in ended] == [0] * SHARDS, [one.stderr for one in ended]
    assert [report_of(one)["keysAnnounced"] for one in ended] == [1] * SHARDS
    downstream.receiver.wait_idle()
    downstream.check_all_is_there()


def test_shards_replace_their_key_together_although_one_is_killed(downstream: Downstream, resend: Resend) -> None:
    receiver = downstream.receiver
    settings = {
        **downstream.settings,
        "generateNewSymmetricKeyEvery": 1,
        "keyRotationFile": resend.folder / "keys",
        "keyRepeats": 1,
        "keySettle": 0.2,
        "checkpoint": f"{resend.folder}/state/",
        "eps": 3000,
    }
    running = [pod(resend, index, **settings, parallelism=1 + (index == 0)) for index in range(SHARDS)]
    wait_until(lambda: receiver.stats()["keys_installed"] >= 2, what="a second key")
    running[1].kill()
    running[1].communicate()
    running[1] = pod(resend, 1, **settings)
    ended = [resend.ended(one) for one in running]
    assert [one.exit_code for one in ended] == [0] * SHARDS, [one.stderr for one in ended]
    receiver.wait_idle()
    downstream.check_all_is_there()
    stats = receiver.stats()
    assert (stats["unreadable"], stats["keys_ignored"]) == ({}, 0)
    announced = sum(report_of(one)["keysAnnounced"] for one in ended)
    assert announced <= stats["keys_installed"] <= announced + 2, (
        "one of them each; what the killed one did is not told"
    )


def test_no_nonce_comes_twice_although_shards_are_killed_and_started_again(
    filled: str, resend: Resend, listener: Listener, encryption: dict[str, Any]
) -> None:
    settings = {
        "resendFileName": resend.bundle(wanted(filled)),
        **encryption,
        "keyRepeats": 1,
        "keySettle": 0,
        "parallelism": 2,
    }
    running = pods(resend, **settings)
    listener.wait_for(2000)
    for pod in running:
        pod.kill()
        pod.communicate()
    for pod in pods(resend, **settings):
        assert resend.ended(pod).exit_code == 0
    sealed = events_of(listener.settled())
    nonces = []
    for datagram in sealed:
        length = int.from_bytes(datagram[5:7], "big")
        start = 7 + length + 4 + 2
        nonces.append(datagram[start : start + 12])
    assert len(nonces) > PARTITIONS * EVENTS
    assert {nonce[0] for nonce in nonces} == set(range(SHARDS))
    assert len(set(nonces)) == len(nonces)


def rate_of(listener: Listener) -> float:
    times = sorted(moment for moment, _ in listener.arrivals)
    return (len(times) - 1) / (times[-1] - times[0])


@pytest.mark.parametrize("pace_file", ["pace", None])
@pytest.mark.alone
def test_the_pace_is_that_of_all_shards_together(
    pace_file: str | None, filled: str, resend: Resend, listener: Listener
) -> None:
    eps = 1500
    settings = {"resendFileName": resend.bundle(wanted(filled)), "eps": eps, "statusPackets": False}
    running = pods(resend, **settings, paceFile=resend.folder / pace_file if pace_file else None)
    for pod in running:
        assert resend.ended(pod).exit_code == 0
    listener.settled()
    assert rate_of(listener) <= eps * 1.02
    assert rate_of(listener) >= eps * 0.4, "shares of one and two partitions are not even"


@pytest.mark.alone
def test_resends_of_a_machine_keep_its_budget_whatever_their_own_pace(
    filled: str, resend: Resend, listener: Listener
) -> None:
    budget = 1500
    settings = {
        "topic": filled,
        "offsetFrom": 0,
        "offsetTo": EVENTS - 1,
        "statusPackets": False,
        "report": None,
        "budgetFile": resend.folder / "budget",
        "budgetEps": budget,
    }
    own = [{"eps": 300}, {}, {"eps": 100_000, "bitsPerSecond": "1G"}, {"parallelism": 2}]
    running = [resend.start(**settings, **pace, partition=partition) for partition, pace in enumerate(own)]
    for process in running:
        assert resend.ended(process).exit_code == 0
    listener.settled()
    times = sorted(moment for moment, _ in listener.arrivals)
    assert len(times) == len(own) * EVENTS
    whole_seconds = int(times[-1] - times[0])
    counts = [sum(s <= moment - times[0] < s + 1 for moment in times) for s in range(whole_seconds)]
    assert max(counts) <= budget * 1.03, counts
    assert (len(times) - 1) / (times[-1] - times[0]) <= budget * 1.02
    slow = [moment for moment, datagram in listener.arrivals if ids_of([datagram])[0].split("_")[-2] == "0"]
    # Only never faster: how much slower a busy machine makes it is no matter of the product.
    assert (len(slow) - 1) / (slow[-1] - slow[0]) <= 300 * 1.05, "its own pace is kept, too"


def test_a_failure_before_anything_is_sent_has_a_report_line_too(filled: str, resend: Resend) -> None:
    ended = resend.run(topic=filled, partition=0, offsetFrom=9, offsetTo=3, reportLine=True, report=None)
    assert ended.exit_code == 2
    report = report_of(ended)
    assert (report["outcome"], report["reason"], report["exitCode"]) == ("Failed", "BadConfiguration", 2)
    assert "offsetTo 3 is below offsetFrom 9" in report["message"]


def test_a_plan_has_a_report_line_and_nothing_else_on_standard_output(filled: str, resend: Resend) -> None:
    ended = resend.run(topic=filled, partition=0, offsetFrom=3, offsetTo=9, plan=True, reportLine=True, report=None)
    assert (ended.exit_code, ended.stdout) == (0, "")
    plan = plan_of(ended)
    assert (plan["gaplessPlan"], plan["events"], plan["shards"]) == (RESEND_PLAN.version, 7, 1)
