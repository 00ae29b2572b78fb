"""The proof that a sender may be stopped, killed or fooled about the time, and its account stays right."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.machine.processes import stopped, wait_until
from kit.machine.wall_clock import WallClock, compiler
from kit.story.resending import Resend, every_id, ids_of

if TYPE_CHECKING:
    from subprocess import Popen

    from conftest import Filled
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

DAY_SECONDS = 86_400


def children_of(process: Popen[str]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(number) for number in text.split()]


def test_a_sender_that_was_stopped_for_longer_than_the_stall_deadline_goes_on(
    filled: Filled, far: Resend, listener: Listener
) -> None:
    """Twice: while it has much in memory, and when it must fetch again from brokers that have forgotten it."""
    topic = filled(20_000)
    process = far.start(topic=topic, partition=0, offsetFrom=0, offsetTo=19_999, eps=4000, stallTimeout=3)
    for events in (500, 15_000):
        listener.wait_for(events)
        with stopped(process):
            time.sleep(6)
    ended = far.ended(process)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == ended.ledger["planned"] == 20_000
    came = Counter(ids_of(listener.settled()))
    assert set(came) == every_id(topic, range(20_000))
    assert set(came.values()) == {1}


@pytest.mark.parametrize("victim", ["whole", "child"])
def test_a_sender_that_is_killed_for_its_memory_goes_on_and_repeats_at_most_a_batch_per_process(
    victim: str, filled: Filled, far: Resend, listener: Listener
) -> None:
    """The kernel chooses one process: the only one, or one of those that share the work."""
    topic = filled(5000, partitions=2)
    eps, processes = 2000, 1 if victim == "whole" else 2
    settings = {
        "resendFileName": far.bundle({(topic, 0): [[0, 4999]], (topic, 1): [[0, 4999]]}),
        "parallelism": processes,
    }
    process = far.start(**settings, eps=eps)
    listener.wait_for(3000)
    if victim == "whole":
        process.kill()
        process.communicate()
    else:
        os.kill(children_of(process)[0], signal.SIGKILL)
        killed = far.ended(process)
        assert killed.exit_code == 143, killed.stderr
        assert "Worker process 0 ended unexpectedly (signal 9)" in killed.stderr
    resumed = far.run(**settings)
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.ledger["sent"] == resumed.ledger["planned"] == 10_000
    came = Counter(ids_of(listener.settled()))
    assert set(came) == every_id(topic, range(5000), 2)
    assert sum(came.values()) - len(came) <= eps, "a batch is a second of pace, which all processes share"


@pytest.mark.skipif(compiler() is None, reason="the clock that jumps is made with a C compiler")
@pytest.mark.alone
def test_the_wall_clock_may_jump_by_days_and_neither_pace_nor_deadlines_follow_it(
    filled: Filled, far: Resend, listener: Listener, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    topic, eps = filled(6000), 1500
    process = far.start(
        environment=clock.environment, topic=topic, partition=0, offsetFrom=0, offsetTo=5999, eps=eps, stallTimeout=30
    )
    for events, jump in ((500, 3 * DAY_SECONDS), (2500, -7 * DAY_SECONDS)):
        listener.wait_for(events)
        clock.jump(jump)

    def days() -> set[bytes]:
        said = [re.search(rb"\d{4}-(\d\d-\d\d)T", datagram) for datagram in listener.datagrams if datagram[0] == 2]
        return {found[1] for found in said if found is not None}

    wait_until(lambda: len(days()) == 2, what="a status with another date than that of the first")
    clock.jump(0)  # The kernel's waits go by its own clock, so that the last ones of Kafka's client would take seconds.
    ended = far.ended(process)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["sent"] == 6000
    came = Counter(ids_of(listener.settled()))
    assert set(came) == every_id(topic, range(6000))
    assert set(came.values()) == {1}
    times = [moment for moment, datagram in listener.arrivals if ids_of([datagram])]
    assert (len(times) - 1) / (times[-1] - times[0]) <= eps * 1.05, "the pace is that of a clock that nobody sets"


def test_a_checkpoint_of_another_bundle_is_refused_before_anything_is_sent(
    filled: Filled, far: Resend, listener: Listener
) -> None:
    topic = filled(20)
    assert far.run(resendFileName=far.bundle({(topic, 0): [[0, 9]]})).exit_code == 0
    listener.settled()
    listener.forget()
    other = far.run(resendFileName=far.bundle({(topic, 0): [[0, 8]]}))
    assert other.exit_code == 2
    assert "belongs to another resend (bundle was " in other.stderr
    assert listener.settled() == []
