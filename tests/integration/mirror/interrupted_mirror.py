"""Owns a ``gapless mirror`` that kills or stops itself in the middle of a transaction, as late as that is possible.

``python interrupted_mirror.py SIGKILL|SIGSTOP NUMBER ARGUMENTS…``: before the commit with that number, when all records
and positions have reached the brokers.
"""

from __future__ import annotations

import os
import signal
import sys

from gapless_api.cli import main
from gapless_kafka.mirror.lanes.writer import LaneWriter


def interrupt_before_commit(by: signal.Signals, number: int) -> None:
    commit, count = LaneWriter.commit, 0

    def committed(self: LaneWriter) -> None:
        nonlocal count
        if self.written:
            count += 1
            if count == number:
                self._producer.client.flush(10)
                sys.stderr.write("interrupted\n")
                sys.stderr.flush()
                os.kill(os.getpid(), by)
        commit(self)

    LaneWriter.commit = committed  # type: ignore[method-assign]


if __name__ == "__main__":
    interrupt_before_commit(signal.Signals[sys.argv[1]], int(sys.argv[2]))
    sys.argv = ["gapless", *sys.argv[3:]]
    main.main()
