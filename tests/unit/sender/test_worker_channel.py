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
from gapless_sender.workers.channel import BatchDone, Finished, Paused, PipeReader, PipeWriter, WorkerError, pipe


def test_messages_come_in_their_order_whatever_their_size() -> None:
    reader, writer = pipe()
    many = [BatchDone(("t", 1), BatchResult(n, n, {"Expired": [(0, 9)] * (n * 3000)}), Traffic(n)) for n in range(12)]

    def send() -> None:
        for message in many:
            writer.send(message)
        writer.close()

    sending = threading.Thread(target=send)
    sending.start()
    found: list[object] = []
    while not reader.at_end:
        reader.wait(10)
        found += reader.receive()
    sending.join()
    assert found == many
    assert reader.receive() == []


def test_a_pipe_is_waited_for_however_many_files_are_open() -> None:
    """select(2) takes no descriptor above 1023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        if limits[0] < 2048:
            resource.setrlimit(resource.RLIMIT_NOFILE, (2048, limits[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        reader, writer = pipe()
        stack.callback(reader.close)
        assert reader.fileno() > 1023
        reader.wait(0)
        assert reader.receive() == []
        writer.send("a message")
        reader.wait(10)
        writer.close()
        assert reader.receive() == ["a message"]


def test_nothing_to_read_is_no_end() -> None:
    reader, writer = pipe()
    assert (reader.receive(), reader.at_end) == ([], False)
    writer.send(Paused())
    assert reader.receive() == [Paused()]


@pytest.mark.parametrize("cut", [1, 3, 5, 20])
def test_a_message_that_a_killed_process_had_begun_is_nothing(cut: int) -> None:
    reading, writing = os.pipe()
    reader, writer = PipeReader(reading), PipeWriter(writing)
    writer.send(Paused())
    content = pickle.dumps(Finished())
    os.write(writing, (len(content).to_bytes(4, "big") + content)[:cut])
    os.close(writing)
    assert reader.receive() == [Paused()]
    assert reader.at_end


def test_what_nobody_can_read_is_an_error() -> None:
    reader, writer = pipe()
    reader.close()
    with pytest.raises(BrokenPipeError):
        writer.send(Paused())


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
