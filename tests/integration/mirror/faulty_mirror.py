"""Owns a ``gapless mirror`` with a defect, which raises exceptions that no rule expects.

``python faulty_mirror.py headers|lane|open ARGUMENTS…``. ``headers``: the headers of records with the value `UNDECODED`
are left to Kafka's client, which fails for those that are not UTF-8. ``lane``: lane 1 fails when it commits records.
``open``: it fails when it is opened.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gapless_api.cli import main
from gapless_kafka.mirror.lanes import reader
from gapless_kafka.mirror.lanes.lane import Lane
from gapless_kafka.mirror.lanes.writer import LaneWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

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


DEFECTS = {"headers": leave_headers, "lane": fail_commits, "open": fail_to_open}

if __name__ == "__main__":
    DEFECTS[sys.argv[1]]()
    sys.argv = ["gapless", *sys.argv[2:]]
    main.main()
