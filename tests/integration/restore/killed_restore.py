"""A ``gapless restore`` that kills itself with SIGKILL at a chosen step of a chosen transaction.

``python killed_restore.py STEP NUMBER ARGUMENTS…``: before the step with that number, counted over all transactions
with records; ``after-commit`` is right behind a commit, and ``pause`` only stops the process before a commit.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gapless_api.cli import main
from gapless_kafka.writing.transactions import TransactionalProducer
from gapless_kafka.writing.writer import PortionWriter

STEPS: dict[str, tuple[type, str]] = {
    "produce": (PortionWriter, "_produce"),
    "flush": (TransactionalProducer, "flush"),
    "position": (TransactionalProducer, "put"),
    "commit": (TransactionalProducer, "commit"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_before(owner: type, method: str, number: int) -> None:
    """Make the writer die before a step of a transaction with records."""
    original: Callable[..., Any] = getattr(owner, method)
    attempt = PortionWriter._attempt
    client: Any = None
    state = {"inside": False, "count": 0}

    def attempted(self: PortionWriter, portions: Any) -> None:
        nonlocal client
        client = self._producer.client
        state["inside"] = any(portion.columns.offsets for portion in portions)
        try:
            attempt(self, portions)
        finally:
            state["inside"] = False

    def step(self: Any, *arguments: Any) -> Any:
        if state["inside"]:
            state["count"] += 1
            if state["count"] == number:
                client.flush(10)  # what was produced so far reaches the broker, which is the worst case
                die()
        return original(self, *arguments)

    PortionWriter._attempt = attempted  # type: ignore[method-assign]
    setattr(owner, method, step)


def kill_after_commit(number: int) -> None:
    """Make the writer die when a transaction is committed and nothing is known of it yet."""
    write, count = PortionWriter.write, 0

    def written(self: PortionWriter, portions: Any) -> None:
        nonlocal count
        write(self, portions)
        count += 1
        if count == number:
            die()

    PortionWriter.write = written  # type: ignore[method-assign]


def pause_before_commit(number: int) -> None:
    """Make the process stop itself before the commit of a transaction, until SIGCONT."""
    write, commit = PortionWriter.write, TransactionalProducer.commit
    state = {"inside": False, "count": 0}

    def written(self: PortionWriter, portions: Any) -> None:
        state["inside"] = True
        try:
            write(self, portions)
        finally:
            state["inside"] = False

    def committed(self: TransactionalProducer) -> None:
        if state["inside"]:
            state["count"] += 1
            if state["count"] == number:
                self.client.flush(10)
                sys.stderr.write("paused\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGSTOP)
        commit(self)

    PortionWriter.write = written  # type: ignore[method-assign]
    TransactionalProducer.commit = committed  # type: ignore[method-assign]


if __name__ == "__main__":
    step_name, wanted = sys.argv[1], int(sys.argv[2])
    if step_name == "pause":
        pause_before_commit(wanted)
    elif step_name == "after-commit":
        kill_after_commit(wanted)
    else:
        kill_before(*STEPS[step_name], wanted)
    sys.argv = ["gapless", *sys.argv[3:]]
    main.main()
