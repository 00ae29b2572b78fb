"""A source topic with the steps that happen to it, whatever copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.logs import Topic, read_topic
from state.source_topic import SourceTopic

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster
    from state.commands import Commands


class TopicSite:
    """A source topic and a copy of it."""

    def __init__(
        self, kafka: KafkaCluster, commands: Commands, name: str, partitions: int, *, compacted: bool = False
    ) -> None:
        self.kafka, self.commands = kafka, commands
        self.source = SourceTopic(kafka, name, partitions, compacted=compacted)

    def changed(self) -> None:
        """Note that a topic has changed since it was read."""

    def read_source(self) -> Topic:
        """Read the source topic."""
        topic = read_topic(self.kafka, self.source.name)
        assert topic is not None
        return topic

    def produce(self, partition: int, count: int) -> None:
        """Write records, each with a value of its own."""
        self.changed()
        self.source.produce(partition, count)

    def transact(self, count: int, *, commit: bool) -> None:
        """Write records to the first partition in a transaction, and commit or abort it."""
        self.begin_transaction(count)
        self.end_transaction(commit=commit)

    def begin_transaction(self, count: int) -> None:
        """Write records to the first partition in a transaction that stays open."""
        self.changed()
        self.source.begin_transaction(count)

    def end_transaction(self, *, commit: bool) -> None:
        """Commit or abort the transaction that is open."""
        self.changed()
        self.source.end_transaction(commit=commit)

    def clean(self) -> None:
        """Let Kafka compact the source topic."""
        self.changed()
        self.source.clean()

    def expire(self, partition: int, share: float) -> None:
        """Delete the oldest records of a source partition, as retention does."""
        self.changed()
        self.source.expire(partition, share)

    def recreate_source(self) -> None:
        """Delete the source topic and create it again."""
        self.changed()
        self.source.recreate()

    def add_partition(self) -> None:
        """Add a partition to the source topic."""
        self.changed()
        self.source.add_partition()

    def cut_source(self, partition: int, choice: int) -> None:
        """Cut the end off a source log under its topic ID."""
        self.changed()
        number, end = self.source.cut(partition, choice)
        if end is not None:
            self.note_cut(number, end)

    def note_cut(self, partition: int, end: int) -> None:
        """Let the oracle know that a source log ends at `end` now."""

    def jump(self, seconds: int) -> None:
        """Set the clock of all later commands."""
        if self.commands.clock is not None:
            self.commands.clock.jump(seconds)
