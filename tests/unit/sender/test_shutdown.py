"""When a signal ends the work, and when it waits for the batch that is under way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from gapless_api.base.errors import StoppedError
from gapless_sender.base import shutdown as module
from gapless_sender.base.shutdown import Shutdown


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def shutdown() -> Shutdown:
    found = Shutdown()
    found.listen()
    return found


def test_a_request_ends_the_work_between_batches(shutdown: Shutdown) -> None:
    shutdown.check()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StoppedError, match="Stopped by SIGTERM; without a checkpoint"):
        shutdown.check()


def test_a_batch_is_waited_for_until_a_second_request(shutdown: Shutdown) -> None:
    shutdown.keeps_progress()
    shutdown.in_batch = True
    signal.raise_signal(signal.SIGINT)
    shutdown.check()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(StoppedError, match="Stopped by SIGINT; start again with the same checkpoint"):
        shutdown.check()


def test_a_batch_is_waited_for_until_patience_is_over(shutdown: Shutdown, monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown.in_batch = True
    signal.raise_signal(signal.SIGTERM)
    shutdown.check()
    monkeypatch.setattr(module, "GRACE_SECONDS", -1.0)
    with pytest.raises(StoppedError):
        shutdown.check()


def test_in_a_worker_the_terminals_signal_is_left_to_the_parent_and_a_repeated_one_cuts_nothing(
    shutdown: Shutdown,
) -> None:
    shutdown.follow_parent(os.getppid())
    signal.raise_signal(signal.SIGINT)
    shutdown.check()
    shutdown.in_batch = True
    for _ in range(3):
        signal.raise_signal(signal.SIGTERM)
        shutdown.check()
    shutdown.in_batch = False
    with pytest.raises(StoppedError):
        shutdown.check()


def test_a_worker_ends_when_its_parent_has_ended_even_before_it_came_to_look(shutdown: Shutdown) -> None:
    shutdown.follow_parent(os.getpid())  # Nobody's parent.
    shutdown.in_batch = True
    shutdown.check()
    shutdown.in_batch = False
    with pytest.raises(StoppedError, match="has ended; start again"):
        shutdown.check()


def test_while_nothing_has_begun_a_request_ends_it_wherever_it_is(shutdown: Shutdown) -> None:
    def waits() -> None:
        with shutdown.interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):
                time.sleep(0.01)

    with pytest.raises(StoppedError, match="SIGTERM"):
        waits()
    with pytest.raises(StoppedError), shutdown.interruptible():
        pytest.fail("it had been asked before")


def test_a_hangup_ends_nothing(shutdown: Shutdown) -> None:
    signal.raise_signal(signal.SIGHUP)
    shutdown.check()
