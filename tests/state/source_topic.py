"""Owns a topic to copy, and what happens to it. Must not know the product."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from confluent_kafka.admin import NewPartitions

from kit.kafka.transactions import end_transaction, in_transaction
from kit.kafka.truncation import truncate
from state.logs import delete_topic

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster


class SourceTopic:
    """A topic whose records each have a value of their own."""

    def __init__(self, kafka: KafkaCluster, name: str, partitions: int) -> None:
        self.kafka, self.name, self.partitions = kafka, name, partitions
        self._values = itertools.count()
        self.boundaries: dict[int, set[int]] = {}
        """Offsets where a log can be cut, by partition: no batch or transaction spans them."""
        kafka.create_topic(name, partitions)

    def produce(self, partition: int, count: int) -> None:
        """Write records to a partition."""
        number = partition % self.partitions
        self.kafka.produce(self.name, self._next(count), partition=number)
        self._note_boundary(number)

    def transact(self, count: int, *, commit: bool) -> None:
        """Write records to the first partition in a transaction, and commit or abort it."""
        records = [(None, value) for value in self._next(count)]
        end_transaction(in_transaction(self.kafka, self.name, records), commit=commit)
        self._note_boundary(0)

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
        delete_topic(self.kafka, self.name)
        self.kafka.create_topic(self.name, self.partitions)
        self.boundaries.clear()

    def add_partition(self) -> None:
        """Add a partition."""
        self.partitions += 1
        self.kafka.admin().create_partitions([NewPartitions(self.name, self.partitions)])[self.name].result()
        self.kafka.await_leaders(self.name, self.partitions)

    def cut(self, partition: int, choice: int) -> tuple[int, int | None]:
        """Cut the end off a log under its topic ID; return the partition and the new end, ``None`` without a cut."""
        number = partition % self.partitions
        start, end = self.kafka.watermarks(self.name)[number]
        ends = sorted(each for each in {0, *self.boundaries.get(number, ())} if start <= each < end)
        if not ends:
            return number, None
        truncate(self.kafka, self.name, number, end=ends[choice % len(ends)])
        return number, ends[choice % len(ends)]

    @staticmethod
    def delete(kafka: KafkaCluster, name: str) -> None:
        """Delete any topic."""
        delete_topic(kafka, name)

    def _next(self, count: int) -> list[bytes]:
        return [b"%d" % next(self._values) for _ in range(count)]

    def _note_boundary(self, partition: int) -> None:
        self.boundaries.setdefault(partition, set()).add(self.kafka.watermarks(self.name)[partition][1])
