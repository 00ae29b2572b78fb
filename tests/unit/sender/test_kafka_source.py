"""How requested offsets are read from Kafka when records and errors arrive together."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError

from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.access import constructors
from gapless_kafka.access.connection import KafkaConnection
from gapless_sender.source.kafka_source import KafkaSource
from gapless_sender.source.plan import PartitionPlan, Reason
from gapless_sender.source.range_cursor import RangeCursor
from gapless_sender.source.requests import MappedPartition

if TYPE_CHECKING:
    import pytest

PARTITION = MappedPartition("t", 0, "t", 0)
OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET


class Record(NamedTuple):
    """A record, or an error, as the client hands it over."""

    at: int
    code: int | None = None

    def __len__(self) -> int:
        return 1

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"x"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class Broker:
    """Holds a partition, and hands over what is scripted for each position that is asked for."""

    def __init__(self, low: int, high: int, answers: dict[int, Sequence[Record]]) -> None:
        self._marks = low, high
        self._answers = answers
        self._next: list[Record] = []

    def __call__(self, _options: Any, **_more: Any) -> Broker:
        return self

    def list_topics(self, topic: str, **_options: Any) -> SimpleNamespace:
        return SimpleNamespace(
            brokers={1: SimpleNamespace(host="k", port=9092)}, topics={topic: SimpleNamespace(error=None)}
        )

    def assign(self, places: Sequence[Any]) -> None:
        self._next = list(self._answers.get(places[0].offset, ()))

    def seek(self, place: Any) -> None:
        self.assign([place])

    def consume(self, _most: int, _seconds: float) -> list[Record]:
        found, self._next = self._next, []
        return found

    def get_watermark_offsets(self, _place: Any, **_options: Any) -> tuple[int, int]:
        return self._marks


def test_records_that_came_before_retention_took_their_place_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        0: [Record(0), Record(1), Record(2), Record(-1, OUT_OF_RANGE)],
        5: [Record(number) for number in range(5, 9)],
    }
    broker = Broker(5, 9, answers)
    monkeypatch.setattr(constructors, "Consumer", broker)
    source = KafkaSource(KafkaConnection(bootstrap_servers="kafka:9092"), stall_timeout_seconds=0.2)
    source.connect()
    ranges = RangeCursor(PartitionPlan(PARTITION, OffsetRanges([(0, 8)])), 0)
    chunks = list(source.read(PARTITION, ranges))
    assert [offset for chunk in chunks for offset in chunk.offsets] == [0, 1, 2, 5, 6, 7, 8]
    assert [hole for chunk in chunks for hole in chunk.absent] == [(3, 4, Reason.EXPIRED)]
