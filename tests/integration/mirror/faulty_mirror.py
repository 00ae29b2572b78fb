"""A ``gapless mirror`` with a defect, which raises exceptions that no rule expects.

``python faulty_mirror.py DEFECT ARGUMENTS…``. ``headers``: the headers of records with the value `UNDECODED`
are left to Kafka's client, which fails for those that are not UTF-8. ``lane``: lane 1 fails when it commits records.
``open``: it fails when it is opened. ``tick``, ``group``, ``worker``, ``once`` and ``refresh``: what is
beside the lanes fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from gapless_api.cli import main
from gapless_mirror.lanes import reader
from gapless_mirror.lanes.lane import Lane
from gapless_mirror.lanes.writer import LaneWriter
from gapless_mirror.workers.group_keeper import GroupKeeper
from gapless_mirror.workers.membership import Membership
from gapless_mirror.workers.source_watch import SourceWatch
from gapless_mirror.workers.worker import Worker

UNDECODED = b"0"
"""What `produce_strange` writes as the value of the first record."""


def leave_headers() -> None:
    keep = reader.keep_header_bytes

    def keep_some(messages: Sequence[Any]) -> None:
        keep([message for message in messages if message.value() != UNDECODED])

    reader.keep_header_bytes = keep_some  # type: ignore[attr-defined]


def fail_commits() -> None:
    flush = LaneWriter.flush

    def fail(self: LaneWriter) -> None:
        if self._lane == 1 and self.written:
            raise KeyError("the content of a record")
        flush(self)

    LaneWriter.flush = fail  # type: ignore[method-assign]


def fail_to_open() -> None:
    open_lane = Lane.open

    def fail(self: Lane) -> None:
        if self.number == 1:
            raise KeyError("the content of a record")
        open_lane(self)

    Lane.open = fail  # type: ignore[method-assign]


def fail_once(owner: Any, name: str, *, calls: int) -> None:
    """Let a method fail the first times that it is called by a running mirror."""
    method = getattr(owner, name)
    failed = []

    def fail(*args: Any, **kwargs: Any) -> Any:
        if len(failed) < calls:
            failed.append(name)
            raise KeyError("the content of a record")
        return method(*args, **kwargs)

    setattr(owner, name, fail)


def fail_refreshes() -> None:
    start = SourceWatch.start

    def start_failing(self: SourceWatch, **kwargs: Any) -> None:
        fail_once(self, "refresh", calls=2)
        start(self, **kwargs)

    SourceWatch.start = start_failing  # type: ignore[method-assign]


DEFECTS: dict[str, Callable[[], None]] = {
    "headers": leave_headers,
    "lane": fail_commits,
    "open": fail_to_open,
    "tick": lambda: fail_once(GroupKeeper, "tick", calls=10**9),
    "group": lambda: fail_once(Membership, "poll", calls=1),
    "worker": lambda: fail_once(Worker, "run_shared", calls=1),
    "once": lambda: fail_once(Worker, "run_once", calls=1),
    "refresh": fail_refreshes,
}

if __name__ == "__main__":
    DEFECTS[sys.argv[1]]()
    sys.argv = ["gapless", *sys.argv[2:]]
    main.main()
