"""The proof that a signal ends a job as a stop, wherever it meets it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gapless_api.base.errors import StoppedError
from gapless_api.base.exit_codes import ExitCode
from gapless_spark.archiving.archive.shutdown import Shutdown
from gapless_spark.output.jobs import stop_on_signals

REQUESTS = [(signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGINT, ExitCode.INTERRUPTED)]


def in_python(number: int) -> None:
    os.kill(os.getpid(), number)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        pass


def in_a_library_in_c(number: int) -> None:
    """What the interpreter makes of C code that returns a result although a handler has raised."""
    try:
        in_python(number)
    except BaseException as raised:
        raise SystemError("<class 'Reader'> returned a result with an exception set") from raised


def in_a_library_with_errors_of_its_own(number: int) -> None:
    """Such as the start of a thread, and PySpark: they turn whatever is raised in them into another exception."""
    try:
        in_python(number)
    except Exception:  # noqa: BLE001 -- as they do
        raise KeyError("a thread that has started") from None


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """SIGINT as a terminal's program has it; what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("stoppable", [stop_on_signals, Shutdown])
@pytest.mark.parametrize("where", [in_python, in_a_library_in_c, in_a_library_with_errors_of_its_own])
@pytest.mark.parametrize(("number", "code"), REQUESTS)
def test_a_signal_is_a_stop(stoppable: Any, where: Callable[[int], None], number: signal.Signals, code: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(StoppedError, match=f"Stopped by {number.name}") as stopped, stoppable(lambda: ""):
        where(number)
    assert stopped.value.exit_code == code
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("stoppable", [stop_on_signals, Shutdown])
def test_an_ended_stop_does_not_hide_an_error_of_a_later_run(stoppable: Any) -> None:
    with pytest.raises(StoppedError), stoppable(lambda: ""):
        in_python(signal.SIGTERM)
    with pytest.raises(KeyError, match="later"), stoppable(lambda: ""):
        raise KeyError("later")


@pytest.mark.parametrize("stoppable", [stop_on_signals, Shutdown])
def test_another_defect_is_not_hidden(stoppable: Any) -> None:
    with pytest.raises(SystemError, match="of its own"), stoppable(lambda: ""):
        raise SystemError("a defect of its own")
