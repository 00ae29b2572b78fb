"""Owns how the records are found that the target refuses, and what is done with them; their partition alone is delayed.

A refusal names a batch, not a record. So fewer and fewer records of the partition are written in a transaction, until
one record alone is refused. It is skipped, and the position records it, or the partition waits before it; then more and
more records are written again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.codec.canonical import moment_text
from gapless_mirror.lanes.records import LostRange

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def select(self, topic_partition: TopicPartition, messages: list[Any]) -> list[Any]:
        """Return the first of `messages`, as many as are written in a transaction."""
        most = self.most.get(topic_partition)
        return messages if most is None else messages[:most]

    def narrow(self, partition: PartitionProgress, offsets: Sequence[int], reason: str, message: str) -> None:
        """Look for the refused record in fewer records, or skip it if it is the only one.

        Args:
            partition: the partition, before the transaction is aborted.
            offsets: of its records in the transaction.
            reason: for which a record is skipped.
            message: why the target refuses it, for the log.
        """
        topic_partition = partition.topic_partition
        self.most[topic_partition] = max(len(offsets) // 2, 1)
        if len(offsets) != 1:
            return
        (offset,) = offsets
        lost = LostRange(
            first=offset,
            last=offset,
            reason=reason,
            source_id=partition.position.source_id,
            time=moment_text(datetime.now(UTC)),
        )
        partition.returned, partition.read_epoch = 0, None
        before = partition.position.lost[-1:]
        if before and (before[0].last, before[0].reason, before[0].source_id) == (offset - 1, reason, lost.source_id):
            partition.before_skip = partition.before_skip or partition.position
            partition.position = replace(partition.position, lost=partition.position.lost[:-1])
            lost = replace(lost, first=before[0].first)
        partition.skip_to(offset + 1, (lost,))
        topic, number = topic_partition
        log.warning("record skipped", topic=topic, partition=number, offset=offset, reason=reason, message=message)

    def after_commit(self) -> set[TopicPartition]:
        """Write more records of each partition whose records were accepted; return those to read again."""
        held, self.held = self.held, set()
        for topic_partition in held & self.most.keys():
            self.most[topic_partition] *= 2
            if self.most[topic_partition] > _MANY:
                del self.most[topic_partition]
        return held
