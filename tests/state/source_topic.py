"""A topic to copy, and what happens to it. Must not know the product.

A compacted topic is compacted only while `clean` runs, so that nothing changes between two readings.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from kit.kafka.transactions import OpenTransaction, end_transaction, in_transaction
from kit.kafka.truncation import truncate
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster


class SourceTopic:
    """A topic whose records each have a value of their own."""

    def __init__(self, kafka: KafkaCluster, name: str, partitions: int, *, compacted: bool = False) -> None:
        self.kafka, self.name, self.partitions, self.is_compacted = kafka, name, partitions, compacted
        self._values = itertools.count()
        self.transaction: OpenTransaction | None = None
        self.boundaries: dict[int, set[int]] = {}
        """Offsets where a log can be cut, by partition: no batch or transaction spans them."""
        self._create()

    @property
    def can_be_cut(self) -> bool:
        """Whether each log is one segment, and no batch after a boundary belongs to an open transaction."""
        return not self.is_compacted and not self.transaction

    def produce(self, partition: int, count: int) -> None:
        """Write records to a partition."""
        number = partition % self.partitions
        values = self._next(count)
        self.kafka.produce(self.name, values, keys=map(_key, values), partition=number)
        self._note_boundary(number)

    def begin_transaction(self, count: int) -> None:
        """Write records to the first partition in a transaction that stays open."""
        assert self.transaction is None
        self.transaction = in_transaction(self.kafka, self.name, [(_key(value), value) for value in self._next(count)])

    def end_transaction(self, *, commit: bool) -> None:
        """Commit or abort the transaction that is open."""
        assert self.transaction is not None
        end_transaction(self.transaction, commit=commit)
        self.transaction = None
        self._note_boundary(0)

    def clean(self) -> None:
        """Let Kafka compact the topic: of the records before the last one of a log, the newest of each key remains."""
        self.kafka.alter_topic(
            self.name, segment_ms="50", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="50"
        )
        time.sleep(0.06)  # a segment ends with the first record that is 50 ms younger than its own first one
        for number in range(self.partitions):
            self.produce(number, 1)
        wait_until(self._is_clean, what=f"the compaction of {self.name}")
        self.kafka.end_compaction(self.name)

    def expire(self, partition: int, share: float, before: int | None = None) -> None:
        """Delete the oldest records of a partition, as retention does; with `before`, only those before this offset."""
        number = partition % self.partitions
        start, end = self.kafka.watermarks(self.name)[number]
        until = start + round((end - start) * share)
        until = until if before is None else min(until, before)
        if until > start:
            self.kafka.delete_records(self.name, number, until)

    def recreate(self) -> None:
        """Delete the topic and create it again."""
        self.kafka.delete_topic(self.name)
        self._create()
        self.boundaries.clear()

    def add_partition(self) -> None:
        """Add a partition."""
        self.partitions += 1
        self.kafka.add_partitions(self.name, self.partitions)

    def cut(self, partition: int, choice: int) -> tuple[int, int | None]:
        """Cut the end off a log under its topic ID; return the partition and the new end, ``None`` without a cut."""
        number = partition % self.partitions
        start, end = self.kafka.watermarks(self.name)[number]
        ends = sorted(each for each in {0, *self.boundaries.get(number, ())} if start <= each < end)
        if not ends:
            return number, None
        truncate(self.kafka, self.name, number, end=ends[choice % len(ends)])
        self.boundaries[number] = {each for each in ends if each <= ends[choice % len(ends)]}
        return number, ends[choice % len(ends)]

    def _create(self) -> None:
        # retention is on as well, because Kafka deletes no records of a topic that is only compacted
        if self.is_compacted:
            ratio = "1.0"  # nothing is dirty enough until `clean`
            self.kafka.create_topic(
                self.name, self.partitions, cleanup_policy="compact,delete", min_cleanable_dirty_ratio=ratio
            )
        else:
            self.kafka.create_topic(self.name, self.partitions)

    def _is_clean(self) -> bool:
        keys: dict[int, list[bytes]] = {}
        for message in self.kafka.read(self.name):
            keys.setdefault(message.partition() or 0, []).append(bytes(message.key() or b""))
        return all(len(set(found[:-1])) == len(found[:-1]) for found in keys.values())

    def _next(self, count: int) -> list[bytes]:
        return [b"%d" % next(self._values) for _ in range(count)]

    def _note_boundary(self, partition: int) -> None:
        self.boundaries.setdefault(partition, set()).add(self.kafka.watermarks(self.name)[partition][1])


def _key(value: bytes) -> bytes:
    return b"key %d" % (int(value) % 2)
