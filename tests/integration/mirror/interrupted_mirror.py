"""A ``gapless mirror`` that kills or stops itself in the middle of a transaction, as late as that is possible.

``python interrupted_mirror.py SIGKILL|SIGSTOP NUMBER ARGUMENTS…``: before the commit with that number, when all records
and positions have reached the brokers; ``commit made`` or ``commit failed`` is written when it goes on. ``unanswered``
in place of the signal: the commit is made, and the answer lost; ``unanswered-at-end``: and the program is stopped
meanwhile.
Lanes commit one after the other, so the commits before the one that is interrupted are made.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException

from gapless_api.cli import main
from gapless_mirror.lanes.writer import LaneWriter
from gapless_mirror.workers.worker import Worker

UNANSWERED, UNANSWERED_AT_END = "unanswered", "unanswered-at-end"


def tell(word: str) -> None:
    sys.stderr.write(f"{word}\n")
    sys.stderr.flush()


def interrupt_commit(by: str, number: int) -> None:
    commit, count, one_at_a_time = LaneWriter.commit, 0, threading.Lock()
    acquire, undecided = Worker.acquire, threading.Lock()

    def acquired(self: Worker, lanes: Collection[int]) -> None:
        # A program that is stopped for longer than its session has lost its lanes, and would fence its own commit.
        with undecided:
            acquire(self, lanes)

    def committed(self: LaneWriter) -> None:
        nonlocal count
        with one_at_a_time:
            count += bool(self.written)
            if self.written and count == number:
                interrupted(self)
            else:
                commit(self)

    def interrupted(self: LaneWriter) -> None:
        self._producer.client.flush(10)
        tell("interrupted")
        if by == UNANSWERED_AT_END:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)  # for the main thread to be told
        if by in {UNANSWERED, UNANSWERED_AT_END}:
            commit(self)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        with undecided:
            os.kill(os.getpid(), signal.Signals[by])
            time.sleep(1)  # until the signal has reached all threads
            producer, pulse = self._producer, self._producer._pulse
            producer._pulse = lambda: None  # lanes that were lost meanwhile do not keep it from its commit
            try:
                commit(self)
            except KafkaException as error:
                tell(f"commit failed: {error}")
                raise
            finally:
                producer._pulse = pulse
        tell("commit made")

    Worker.acquire = acquired  # type: ignore[method-assign]
    LaneWriter.commit = committed  # type: ignore[method-assign]


if __name__ == "__main__":
    interrupt_commit(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["gapless", *sys.argv[3:]]
    main.main()
