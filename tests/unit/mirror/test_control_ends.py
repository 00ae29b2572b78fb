"""Where the records of a lane end: never where a former leader ends, nor before a transaction that is not open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_mirror.lanes import control_records
from gapless_mirror.lanes.control_records import LaneRecords, Span, read_partitions
from gapless_mirror.lanes.stored import StoredRecord

LANE = ("control", 0)


class EndOfPartition:
    def name(self) -> str:
        return "_PARTITION_EOF"


class Answer(NamedTuple):
    """A record, or the last stable offset, with the high watermark that the client has when it is read."""

    at: int
    end: int
    is_end: bool = True

    def topic(self) -> str:
        return LANE[0]

    def partition(self) -> int:
        return LANE[1]

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"%d" % self.at

    def offset(self) -> int:
        return self.at

    def error(self) -> EndOfPartition | None:
        return EndOfPartition() if self.is_end else None


class ScriptedConsumer:
    """Returns `answers` one by one, each with its high watermark."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self._end = -1001
        self.sought: list[int] = []

    def assign(self, _partitions: object) -> None: ...

    def consume(self, _count: int, _seconds: float) -> list[Answer]:
        answer = self._answers.pop(0)
        self._end = answer.end
        return [answer]

    def get_watermark_offsets(self, _partition: object, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, self._end

    def seek(self, partition: Any) -> None:
        self.sought.append(partition.offset)

    def close(self) -> None:
        assert self._answers == [], "it was not read"


def record(offset: int, end: int) -> Answer:
    return Answer(offset, end, is_end=False)


@pytest.mark.parametrize(
    ("answers", "mark", "offsets", "open_from"),
    [
        ([record(0, 1), Answer(1, 1)], -1, [0], None),
        # The former leader ends before the mark.
        ([record(0, 1), Answer(1, 1), Answer(1, 1), record(1, 3), record(2, 3), Answer(3, 3)], 2, [0, 1, 2], None),
        # The new leader has answered when the end of the former one is read.
        ([record(0, 3), Answer(1, 3), record(1, 3), record(2, 3), Answer(3, 3)], 2, [0, 1, 2], None),
        # A transaction is open before the mark.
        ([record(0, 3), Answer(1, 3), Answer(1, 3)], 2, [0], 1),
        # It has ended before the same offset was answered again, and the next one is open.
        ([record(0, 3), Answer(1, 3), record(1, 6), Answer(4, 6), Answer(4, 6)], 2, [0, 1], 4),
        # Another record was written meanwhile, and no transaction is open.
        ([record(0, 1), Answer(1, 2), record(1, 2), Answer(2, 2)], 0, [0, 1], None),
        # What was read before a seek may come again.
        ([record(0, 2), record(1, 2), Answer(2, 3), record(1, 3), record(2, 3), Answer(3, 3)], -1, [0, 1, 2], None),
    ],
)
def test_a_lane_is_read_to_the_end_of_its_leader(
    monkeypatch: pytest.MonkeyPatch, answers: list[Answer], mark: int, offsets: list[int], open_from: int | None
) -> None:
    consumer = ScriptedConsumer(answers)
    monkeypatch.setattr(control_records, "new_consumer", lambda *_: consumer)
    connection = KafkaConnection(bootstrap_servers="127.0.0.1:9")
    found = read_partitions(connection, {LANE: Span(0, mark)}, "read_committed")
    records = [StoredRecord(b"key", b"%d" % offset, offset) for offset in offsets]
    assert found == {LANE: LaneRecords(records, open_from)}
    assert consumer.sought == [each.at for each in answers[:-1] if each.is_end]
