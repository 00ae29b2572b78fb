"""How a lane reads records to which the SQL of its mirror is applied. Must not know how it is evaluated.

Heartbeats are not records of a user: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.reader import NO_EPOCHS, Reader, Reading
from gapless_mirror.sql.evaluation import Evaluation, Transformed

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition


class TransformedReader:
    """Reads like another reader, and returns records after the statement."""

    def __init__(self, reader: Reader, evaluation: Evaluation) -> None:
        """Both are closed with this one."""
        self._reader, self._evaluation = reader, evaluation

    def add(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]] = NO_EPOCHS
    ) -> None:
        """See `Reader`."""
        self._reader.add(offsets, epochs)

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._reader.drop(topic_partitions)

    def log_range(self, topic_partition: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """Return the start and the end of a partition's log. Raises KafkaException."""
        return self._reader.log_range(topic_partition, timeout_seconds=timeout_seconds)

    def read(self, max_records: int, timeout_seconds: float) -> Reading:
        """Wait for records, and return at most `max_records`; those that are left out are `Transformed.is_dropped`.

        Raises:
            GaplessError: see `Evaluation.apply`.
        """
        reading = self._reader.read(max_records, timeout_seconds)
        own = [batch for batch in reading.batches if batch.topic_partition[0] != HEARTBEAT_TOPIC]
        results = iter(self._evaluation.apply([message for batch in own for message in batch.messages]))
        for batch in own:
            batch.messages[:] = islice(results, len(batch.messages))
        return reading

    def close(self) -> None:
        """Close the connections."""
        try:
            self._evaluation.close()
        finally:
            self._reader.close()


def by_target(messages: list[Any], target: str) -> list[tuple[str, list[Any]]]:
    """Divide records of one partition by where they are written: `target`, unless the statement names another topic.

    The order of the records is kept, so a topic may come several times. Records that are left out do not come.
    """
    if not messages or not isinstance(messages[0], Transformed):
        return [(target, messages)] if messages else []
    kept = (message for message in messages if not message.is_dropped)
    return [(name or target, list(group)) for name, group in groupby(kept, attrgetter("target"))]
