"""What a person sees on a terminal: how fast it goes, how long it takes, and until when Kafka keeps the events."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener
    from kit.story.resending import Resend


def on_terminal(command: list[str]) -> tuple[int, str]:
    """Run a command whose output is a terminal; return its exit code, and what it has written without colours."""
    terminal, output = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
    os.close(output)
    written = b""
    try:
        while part := os.read(terminal, 65536):
            written += part
    except OSError:  # the terminal of a program that has ended
        pass
    finally:
        os.close(terminal)
    return process.wait(60), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())


def test_a_resend_shows_its_rate_and_the_remaining_time(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"%d" % number for number in range(400)])
    code, seen = on_terminal(resend.command(topic=name, partition=0, offsetFrom=0, eps=200, progressInterval=1))
    assert code == 0, seen
    assert re.search(r"resend .* \d+% +\d+ sent, [1-9]\d* events/s +0:00:0\d", seen), seen
    assert seen.rstrip().endswith("Sent 400 of 400 events.")
    assert len(listener.settled()) == 402


def test_a_plan_shows_until_when_kafka_keeps_its_events(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend
) -> None:
    name = topic(retention_ms=str(48 * 3600 * 1000))
    kafka.produce(name, [b"1", b"2"])
    code, seen = on_terminal(resend.command(topic=name, partition=0, offsetFrom=0, plan=True, report=None))
    assert code == 0, seen
    assert "What would be sent (nothing has been)" in seen
    kept = r"Kafka's retention may delete the first of them from \d{4}-\d\d-\d\dT\S+Z on, in (2 d|48 h)\."
    assert re.search(kept, " ".join(seen.split())), seen
