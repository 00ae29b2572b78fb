"""The proof that a receiver can join what a slow line brings, and that a resend over it stops soon."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from kit.peer.reassembly import FragmentCache, parse
from kit.story.resending import Resend, every_id, ids_of

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

PARTITIONS, EVENTS, EVENT_BYTES = 2, 100, 5_000
SLOW = {"bitsPerSecond": "2M", "payloadSize": 1400}
"""At this rate everything takes four seconds."""
KEPT_SECONDS = 1.5
"""So long the receiver of these tests keeps an incomplete event, in place of 30 s."""


@pytest.fixture(scope="module")
def filled(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"slow-{os.getpid()}", PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(name, (os.urandom(EVENT_BYTES) for _ in range(EVENTS)), partition=partition)
    return name


def joined(arrivals: list[tuple[float, bytes]]) -> list[str]:
    """The ids of the events that a receiver joins which forgets after `KEPT_SECONDS`."""
    cache = FragmentCache(time_to_live_seconds=KEPT_SECONDS, sweep_interval_seconds=0.05)
    found = []
    for seconds, datagram in arrivals:
        cache.sweep(seconds)
        message = cache.add(parse(datagram), seconds)
        if message is not None and message.event_id != "STATUS":
            found.append(message.event_id)
    return found


@pytest.mark.parametrize(
    ("processes", "budget"), [(1, False), (2, False), (1, True)], ids=["one process", "two processes", "budget file"]
)
def test_every_event_can_be_joined_behind_a_slow_line(
    filled: str, resend: Resend, listener: Listener, *, processes: int, budget: bool
) -> None:
    pace = dict(SLOW)
    if budget:
        pace |= {"bitsPerSecond": 0, "budgetFile": resend.folder / "budget", "budgetBitsPerSecond": "2M"}
    gaps = {(filled, partition): [[0, EVENTS - 1]] for partition in range(PARTITIONS)}
    ended = resend.run(resendFileName=resend.bundle(gaps), parallelism=processes, **pace)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == PARTITIONS * EVENTS
    listener.settled()
    assert sorted(joined(listener.arrivals)) == sorted(every_id(filled, range(EVENTS), PARTITIONS))


def test_a_stop_on_a_slow_line_waits_for_few_events_and_repeats_none(
    filled: str, resend: Resend, listener: Listener
) -> None:
    settings = {
        "resendFileName": resend.bundle({(filled, 0): [[0, EVENTS - 1]]}),
        "checkpoint": resend.folder / "checkpoint",
    }
    process = resend.start(**settings, **SLOW)
    listener.wait_for(40)
    before = len(set(ids_of(listener.datagrams)))
    process.send_signal(signal.SIGTERM)
    ended = resend.ended(process)
    assert ended.exit_code == 143, ended.stderr
    stopped = ids_of(listener.settled())
    assert len(set(stopped)) - before < EVENTS // 2, "the batch under way is a few events"
    assert ended.ledger["sent"] == len(stopped)
    again = resend.run(**settings)
    assert again.exit_code == 0, again.stderr
    everything = ids_of(listener.settled())
    assert sorted(everything) == sorted(every_id(filled, range(EVENTS)))
