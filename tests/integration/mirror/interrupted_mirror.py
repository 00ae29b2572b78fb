"""Owns a ``gapless mirror`` that kills or stops itself in the middle of a transaction, as late as that is possible.

``python interrupted_mirror.py SIGKILL|SIGSTOP NUMBER ARGUMENTS…``: before the commit with that number, when all records
and positions have reached the brokers; ``committed`` is written when it was made after all. ``unanswered`` in place of
the signal: the commit is made, and the answer lost; ``unanswered-at-end``: and the program is stopped meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from confluent_kafka import KafkaError, KafkaException

from gapless_api.cli import main
from gapless_kafka.mirror.lanes.writer import LaneWriter

UNANSWERED, UNANSWERED_AT_END = "unanswered", "unanswered-at-end"


def interrupt_commit(by: str, number: int) -> None:
    commit, count = LaneWriter.commit, 0

    def committed(self: LaneWriter) -> None:
        nonlocal count
        if self.written:
            count += 1
            if count == number:
                self._producer.client.flush(10)
                sys.stderr.write("interrupted\n")
                sys.stderr.flush()
                if by == UNANSWERED_AT_END:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(1)  # for the main thread to be told
                if by in {UNANSWERED, UNANSWERED_AT_END}:
                    commit(self)
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                os.kill(os.getpid(), signal.Signals[by])
                time.sleep(1)  # until the signal has reached all threads
                commit(self)
                sys.stderr.write("committed\n")
                sys.stderr.flush()
                return
        commit(self)

    LaneWriter.commit = committed  # type: ignore[method-assign]


if __name__ == "__main__":
    interrupt_commit(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["gapless", *sys.argv[3:]]
    main.main()
