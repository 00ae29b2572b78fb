"""The proof of how slices are read: what ends the reader, what it waits for, and the progress that it reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, TopicPartition

from gapless_api.base.errors import ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_kafka.access import constructors
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS, StallClock
from gapless_kafka.reading import reader
from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices

CONNECTION = KafkaConnection(bootstrap_servers="kafka:9092")
SLICES = (Slice("t", 0, 0, 4, may_skip_expired=False), Slice("t", 1, 5, 8, may_skip_expired=False))


class Record(NamedTuple):
    """A record, or an error, as the client hands it over."""

    of: int
    at: int
    code: int | None = None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class Broker:
    """Returns the next answer for each call, after its delay."""

    def __init__(self, *answers: tuple[float, Sequence[Record]]) -> None:
        self.answers = list(answers)
        self.now = 0.0
        self.positions = {0: -1001, 1: -1001}
        self.reassigned: list[tuple[int, int]] = []

    def __call__(self, _options: Any, **_more: Any) -> Broker:
        return self

    def assign(self, _begins: Any) -> None: ...

    def pause(self, _places: Any) -> None: ...

    def incremental_unassign(self, _places: Any) -> None: ...

    def incremental_assign(self, begins: Any) -> None:
        self.reassigned = [(begin.partition, begin.offset) for begin in begins]

    def close(self) -> None: ...

    def consume(self, _most: int, _seconds: float) -> list[Record]:
        seconds, records = self.answers.pop(0)
        self.now += seconds
        self.positions |= {record.of: record.at + 1 for record in records if record.code is None}
        return list(records)

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, self.positions[place.partition]) for place in places]


class RecordedProgress:
    """Records how many offsets are reported as read."""

    def __init__(self) -> None:
        self.offsets_read: list[int] = []

    def begin(self, _offsets: int) -> None: ...

    def update(self, count_read: Callable[[], int]) -> None:
        self.offsets_read.append(count_read())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, int]]]:
    def run(
        *answers: tuple[float, Sequence[Record]],
        progress: RecordedProgress | None = None,
        slices: Sequence[Slice] = SLICES,
    ) -> list[tuple[int, int]]:
        broker = Broker(*answers)
        monkeypatch.setattr(constructors, "Consumer", broker)
        monkeypatch.setattr(reader, "StallClock", lambda: StallClock(now=lambda: broker.now))
        batches: Any = read_slices(CONNECTION, slices, progress or RecordedProgress())
        return [(record.of, record.at) for records in batches for record in records]

    return run


ALL = (0.1, [Record(0, 0), Record(0, 2), Record(1, 5), Record(0, 3), Record(1, 7)])
EXPECTED = [(0, 0), (0, 2), (1, 5), (0, 3), (1, 7)]


def test_a_reader_that_was_stopped_for_longer_than_a_stall_goes_on(read: Callable[..., Any]) -> None:
    assert read((STALLED_AFTER_SECONDS * 10, []), (0.2, []), ALL) == EXPECTED


def test_a_reader_without_records_for_a_minute_has_stalled_and_says_why(read: Callable[..., Any]) -> None:
    lost = (0.2, [Record(0, -1001, KafkaError._TRANSPORT)])
    with pytest.raises(SourceStalledError, match=r"stopped answering while the topic t was read \(.+\); check"):
        read(*[lost] * 302)


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.GROUP_AUTHORIZATION_FAILED]
)
def test_transient_errors_are_waited_for(read: Callable[..., Any], code: int) -> None:
    assert read((0.1, [Record(0, -1001, code)]), ALL) == EXPECTED


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SourceUnreachableError, "denies access to the topic t; grant"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, ConfigurationError, "does not have the topic t; correct"),
        (KafkaError._AUTO_OFFSET_RESET, SourceUnreachableError, "has deleted records of the topic t before"),
        (KafkaError._BAD_MSG, SourceUnreachableError, "returned an error for the topic t"),
    ],
)
def test_other_errors_end_the_reader_at_once(
    read: Callable[..., Any], code: int, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        read((0.1, [Record(0, -1001, code)]))


def test_it_reports_how_many_offsets_are_read(read: Callable[..., Any]) -> None:
    progress = RecordedProgress()
    eof = Record(1, 8, KafkaError._PARTITION_EOF)
    read(
        (0, []),
        (0, [Record(0, 0)]),
        (0, [Record(0, 2), Record(1, 5)]),
        (0, [eof]),
        (0, [Record(0, 3)]),
        progress=progress,
    )
    assert progress.offsets_read == [0, 1, 4, 6, 7]


def test_a_slice_may_skip_records_that_expire_before_they_are_read(
    read: Callable[..., Any],
) -> None:
    expired = (0.1, [Record(0, -1001, KafkaError._AUTO_OFFSET_RESET)])
    slices = [Slice("t", 0, 3, 8, may_skip_expired=True)]
    assert read(expired, (0.1, [Record(0, 5), Record(0, 7)]), slices=slices) == [(0, 5), (0, 7)]
    assert read(expired, (0.1, [Record(0, 9)]), slices=slices) == []
    assert read(expired, (0.1, [Record(0, 1), Record(0, 7)]), slices=slices) == [(0, 7)], "of another topic's life"
    with pytest.raises(SourceUnreachableError, match="has deleted records"):
        read((0.1, [Record(0, 3)]), expired, slices=slices)


@pytest.mark.parametrize("last", [0, 1])
def test_records_beyond_a_slice_are_not_returned(read: Callable[..., Any], last: int) -> None:
    records = [Record(0, 0), Record(0, 1), Record(1, 5), Record(0, 2), Record(1, 6), Record(1, 8)]
    assert read((0.1, records), (0.1, [Record(0, 3 + last), Record(0, 5)])) == [
        (0, 0), (0, 1), (1, 5), (0, 2), (1, 6), *([(0, 3)] if last == 0 else [])
    ]  # fmt: skip
