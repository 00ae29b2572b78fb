"""The proof that a topic which was deleted and recreated under us is never resent for the one that was meant."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclOperation

from kit.kafka.cluster import USERS
from kit.story.resending import Ended, Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

EVENTS = 20_000
OLD, NEW = b"old " + bytes(2000), b"new " + bytes(2000)


def make_anew(kafka: KafkaBroker, topic: str, events: int) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, [NEW] * events)


def said_so(ended: Ended, topic: str) -> None:
    assert ended.exit_code == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("gapless: ")]
    assert len(lines) == 1, ended.stderr
    assert f"The topic {topic} was deleted and recreated (topic ID " in lines[0]


def settings_of(topic: str, resend: Resend) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": 0,
        "offsetFrom": 0,
        "offsetTo": EVENTS - 1,
        "checkpoint": resend.folder / "checkpoint",
        "payloadSize": 8000,
        "stallTimeout": 120,
    }


@pytest.mark.parametrize("events", [0, 100, EVENTS], ids=["empty", "shorter", "as long as the old one"])
def test_a_topic_that_is_made_anew_under_us_ends_the_resend(
    events: int, kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [OLD] * EVENTS)
    settings = settings_of(name, resend)
    process = resend.start(**settings, eps=1000)
    listener.wait_for(500)
    make_anew(kafka, name, events)
    ended = resend.ended(process, timeout_seconds=200)
    said_so(ended, name)
    assert 0 < ended.ledger["sent"] < EVENTS
    assert ended.ledger["unavailable"] == 0, "what the old topic had is not said to be expired or not yet written"
    sent = len(events_of(listener.settled()))
    listener.forget()
    said_so(resend.run(**settings), name)
    assert events_of(listener.settled()) == [], "the checkpoint is of the old topic"
    assert sent == ended.ledger["sent"]


def test_a_topic_that_was_made_anew_between_two_runs_is_not_gone_on_with(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [OLD] * EVENTS)
    settings = settings_of(name, resend)
    process = resend.start(**settings, eps=2000)
    listener.wait_for(1000)
    process.terminate()
    assert resend.ended(process).exit_code == 143
    make_anew(kafka, name, EVENTS)
    listener.settled()
    listener.forget()
    for parallel in (1, 2):
        said_so(resend.run(**settings, parallelism=parallel), name)
    assert events_of(listener.settled()) == []
    anew = resend.run(**settings | {"checkpoint": resend.folder / "another"})
    assert anew.exit_code == 0, anew.stderr
    assert {datagram[-len(NEW) :] for datagram in events_of(listener.settled())} == {NEW}


def test_a_topic_that_is_made_anew_after_it_was_read_and_before_the_end_is_noticed(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    """All its events are in memory when it happens, so that nothing but the last look can see it."""
    name = topic()
    kafka.produce(name, [b"small"] * 2000)
    process = resend.start(**settings_of(name, resend) | {"offsetTo": 1999}, eps=500)
    listener.wait_for(100)
    make_anew(kafka, name, 2000)
    ended = resend.ended(process)
    said_so(ended, name)
    assert {datagram[-5:] for datagram in events_of(listener.settled())} == {b"small"}


def test_a_checkpoint_of_before_topic_ids_is_gone_on_from_and_gets_them(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 400)
    settings = settings_of(name, resend) | {"offsetTo": 399}
    process = resend.start(**settings, eps=100)
    listener.wait_for(50)
    process.terminate()
    assert resend.ended(process).exit_code == 143
    path = resend.folder / "checkpoint"
    header, *lines = path.read_text().splitlines()
    old = {**json.loads(header), "gaplessCheckpoint": 1}
    del old["topicIds"]
    kept = [line for line in lines if "topicIds" not in line]
    assert len(kept) == len(lines) - 1
    path.write_text("\n".join([json.dumps(old), *kept, ""]))
    ended = resend.run(**settings)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 400
    assert len(json.loads(path.read_text().splitlines()[0])["topicIds"][name]) == 22
    assert len(set(ids_of(listener.settled()))) == len(events_of(listener.datagrams)) == 400


def test_somebody_who_may_only_read_can_resend_and_is_protected(
    secure_kafka: KafkaBroker, listener: Listener, tmp_path: Path
) -> None:
    name = secure_kafka.create_topic(f"read-only-{os.getpid()}")
    secure_kafka.produce(name, [OLD] * 10)
    secure_kafka.allow(name, "alice", AclOperation.READ)
    (tmp_path / "password").write_text(USERS["alice"])
    resend = Resend(
        tmp_path,
        {
            "bootstrapServers": secure_kafka.address("SASL_PLAINTEXT"),
            "saslMechanism": "SCRAM-SHA-512",
            "saslUsername": "alice",
            "saslPasswordFile": tmp_path / "password",
            "targetIP": "127.0.0.1",
            "targetPort": listener.port,
        },
    )
    ended = resend.run(**settings_of(name, resend) | {"offsetTo": 9})
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 10
    assert list(json.loads((tmp_path / "checkpoint").read_text().splitlines()[0])["topicIds"]) == [name]
