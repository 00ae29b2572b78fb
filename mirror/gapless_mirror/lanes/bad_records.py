"""How the records are found that the target refuses, and what is done with them; their partition alone is delayed.

A refusal names a batch, not a record. So fewer and fewer records of the partition are written in a transaction, until
one record alone is refused. It is skipped or parked, and the position records it, or the partition waits before it;
then more and more records are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.codec.canonical import moment_text
from gapless_mirror.lanes.records import LostRange

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.progress import PartitionProgress

_MANY = 1000
"""With so many records in a transaction, the search has ended."""
log = structlog.get_logger("mirror")


@dataclass(slots=True)
class BadRecords:
    """The partitions of a lane in which a refused record is looked for."""

    most: dict[TopicPartition, int] = field(default_factory=dict)
    """How many records of a partition are written in a transaction."""
    held: set[TopicPartition] = field(default_factory=set)
    """Partitions of which the open transaction has its records."""
    to_park: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the record of a partition that is written to the parking topic next."""

    def select(self, topic_partition: TopicPartition, messages: list[Any]) -> list[Any]:
        """Return the first of `messages`, as many as are written in a transaction."""
        most = self.most.get(topic_partition)
        return messages if most is None else messages[:most]

    def is_parked(self, topic_partition: TopicPartition, messages: Sequence[Any]) -> bool:
        """Whether the selected `messages` are the one record that is written to the parking topic."""
        offset = self.to_park.get(topic_partition)
        return offset is not None and [message.offset() for message in messages] == [offset]

    def narrow(self, partition: PartitionProgress, offsets: Sequence[int]) -> int | None:
        """Look for the refused record in fewer records; return its offset if it is the only one.

        Args:
            partition: the partition, before the transaction is aborted.
            offsets: of its records in the transaction.
        """
        self.most[partition.topic_partition] = max(len(offsets) // 2, 1)
        return offsets[0] if len(offsets) == 1 else None

    def skip(self, partition: PartitionProgress, offset: int, reason: str, message: str) -> None:
        """Continue after a record.

        Args:
            partition: the partition, before the transaction is aborted.
            offset: of the record.
            reason: for which it is skipped.
            message: why the target refuses it, for the log.
        """
        partition.returned, partition.read_epoch = 0, None
        partition.skip_to(offset + 1, (range_of(partition, offset, reason),))
        topic, number = partition.topic_partition
        log.warning("record skipped", topic=topic, partition=number, offset=offset, reason=reason, message=message)

    def park_next(self, partition: PartitionProgress, offset: int, message: str) -> None:
        """Let the next transaction write a record to the parking topic; the arguments are those of `skip`."""
        self.to_park[partition.topic_partition] = offset
        topic, number = partition.topic_partition
        log.warning("record will be parked", topic=topic, partition=number, offset=offset, message=message)

    def after_commit(self) -> set[TopicPartition]:
        """Write more records of each partition whose records were accepted; return those to read again."""
        held, self.held = self.held, set()
        for topic_partition in held & self.most.keys():
            self.to_park.pop(topic_partition, None)
            self.most[topic_partition] *= 2
            if self.most[topic_partition] > _MANY:
                del self.most[topic_partition]
        return held


def range_of(partition: PartitionProgress, offset: int, reason: str) -> LostRange:
    """Return the range of one record that is not written to the target topic now."""
    time = moment_text(datetime.now(UTC))
    return LostRange(first=offset, last=offset, reason=reason, source_id=partition.position.source_id, time=time)
