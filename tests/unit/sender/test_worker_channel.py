"""Messages of workers come whole, in order, or not at all."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import threading

import pytest

from gapless_api.base.errors import (
    ConfigurationError,
    GaplessError,
    LinkError,
    SourceStalledError,
    StoppedError,
    error_outcome,
)
from gapless_archive.catalog.state import ArchiveDamagedError
from gapless_archive.store.object_store import MissingObjectError
from gapless_kafka.access.errors import TopicMissingError
from gapless_sender.link.udp_link import UnsentError
from gapless_sender.replay.account import BatchResult
from gapless_sender.replay.report import Traffic
from gapless_sender.workers.channel import BatchDone, Finished, Inlet, Outlet, Paused, WorkerError, pipe


def test_messages_come_in_their_order_whatever_their_size() -> None:
    inlet, outlet = pipe()
    many = [BatchDone(("t", 1), BatchResult(n, n, {"Expired": [(0, 9)] * (n * 3000)}), Traffic(n)) for n in range(12)]

    def send() -> None:
        for message in many:
            outlet.send(message)
        outlet.close()

    sending = threading.Thread(target=send)
    sending.start()
    found: list[object] = []
    while not inlet.has_ended:
        inlet.wait(10)
        found += inlet.receive()
    sending.join()
    assert found == many
    assert inlet.receive() == []


def test_a_pipe_is_waited_for_however_many_files_are_open() -> None:
    """select(2) takes no descriptor above 1023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        if limits[0] < 2048:
            resource.setrlimit(resource.RLIMIT_NOFILE, (2048, limits[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        inlet, outlet = pipe()
        stack.callback(inlet.close)
        assert inlet.fileno() > 1023
        inlet.wait(0)
        assert inlet.receive() == []
        outlet.send("a message")
        inlet.wait(10)
        outlet.close()
        assert inlet.receive() == ["a message"]


def test_nothing_to_read_is_no_end() -> None:
    inlet, outlet = pipe()
    assert (inlet.receive(), inlet.has_ended) == ([], False)
    outlet.send(Paused())
    assert inlet.receive() == [Paused()]


@pytest.mark.parametrize("cut", [1, 3, 5, 20])
def test_a_message_that_a_killed_process_had_begun_is_nothing(cut: int) -> None:
    reading, writing = os.pipe()
    inlet, outlet = Inlet(reading), Outlet(writing)
    outlet.send(Paused())
    content = pickle.dumps(Finished())
    os.write(writing, (len(content).to_bytes(4, "big") + content)[:cut])
    os.close(writing)
    assert inlet.receive() == [Paused()]
    assert inlet.has_ended


def test_what_nobody_can_read_is_an_error() -> None:
    inlet, outlet = pipe()
    inlet.close()
    with pytest.raises(BrokenPipeError):
        outlet.send(Paused())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigurationError("wrong"), ConfigurationError),
        (SourceStalledError("silent"), SourceStalledError),
        (UnsentError("away", (b"",)), LinkError),
        (ArchiveDamagedError("a commit is missing"), ConfigurationError),
        (MissingObjectError("no object"), ConfigurationError),
        (TopicMissingError("no topic"), ConfigurationError),
        (StoppedError("asked", by_terminal=True), StoppedError),
        (StoppedError("asked", by_terminal=False), StoppedError),
    ],
)
def test_a_problem_is_the_same_on_the_other_side(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(error, GaplessError)
    told = pickle.loads(pickle.dumps(WorkerError.of(error))).error  # noqa: S301
    assert type(told) is kind
    assert str(told) == str(error)
    assert error_outcome(told) == error_outcome(error)
