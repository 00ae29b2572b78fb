"""Which archived partitions Kafka has truncated under the same topic ID, and until when they were checked.

A log can only be truncated by a change of its leader, so the leaders are asked once for each epoch of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.access.errors import TopicMissingError
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated
from gapless_kafka.reading.topic_offsets import read_cut

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_spark.archiving.archive.chains import TopicChain
    from gapless_spark.archiving.archive.planning import Pending


class _Log(NamedTuple):
    topic: str
    topic_id: str
    partition: int


class Truncations:
    """The truncated partitions that a run has found. What it has found stays until the run ends."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float) -> None:
        self._connection, self._timeout = connection, timeout_seconds
        self._truncated: dict[_Log, int] = {}
        self._intact: dict[_Log, int] = {}
        """The leader epoch at which each log had everything that was archived."""

    def check(self, topics: Iterable[TopicCut], chains: Mapping[str, TopicChain]) -> None:
        """Compare the heads of the chains with the logs of `topics`, whose leader epochs may have changed.

        Raises:
            TopicMissingError: a topic was deleted meanwhile.
            GaplessError: Kafka does not respond, or denies access.
        """
        epochs: dict[_Log, int] = {}
        positions = []
        for topic in topics:
            state = chains[topic.topic].state
            for number, high_watermark in enumerate(topic.high_watermarks):
                log, head, recorded = (
                    _Log(topic.topic, topic.id, number),
                    state.head(number),
                    state.leader_epoch(number),
                )
                epoch = topic.leader_epochs[number] if topic.leader_epochs else -1
                if head is None or log in self._truncated:
                    continue
                if recorded is None or epoch < 0:  # archived by an earlier release, or read from old brokers
                    if head > high_watermark:
                        self._truncated[log] = high_watermark
                elif epoch not in {recorded, self._intact.get(log)}:
                    epochs[log] = epoch
                    positions.append(LogPosition(topic.topic, number, head, recorded))
        found = self._find(positions, {log.topic: log.topic_id for log in epochs})
        for log, epoch in epochs.items():
            end = found.get((log.topic, log.partition))
            if end is None:
                self._intact[log] = epoch
            else:
                self._truncated[log] = end

    def of(self, topic: TopicCut) -> dict[int, int]:
        """Return the truncated partitions of a topic, and the end of the records that are still as archived."""
        return {
            log.partition: end
            for log, end in self._truncated.items()
            if (log.topic, log.topic_id) == (topic.topic, topic.id)
        }

    def topics_changed(
        self, before: Mapping[str, TopicCut], after: Mapping[str, TopicCut], read: Sequence[Pending]
    ) -> set[str]:
        """Return the topics of which a log was truncated below what was read between two snapshots.

        Raises:
            GaplessError: Kafka does not respond, or denies access.
        """
        positions = []
        for partition in read:
            topic, number = partition.topic, partition.partition
            if topic in after and before[topic].id == after[topic].id and before[topic].leader_epochs:
                epoch = before[topic].leader_epochs[number]
                if 0 <= epoch != after[topic].leader_epochs[number]:
                    positions.append(LogPosition(topic, number, partition.end, epoch))
        try:
            found = self._find(positions, {position.topic: before[position.topic].id for position in positions})
        except TopicMissingError:
            return {position.topic for position in positions}
        return {topic for topic, _ in found}

    def _find(self, positions: Sequence[LogPosition], ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """Find truncated logs; those of a topic that was recreated meanwhile are not the same."""
        found = find_truncated(self._connection, positions)
        if not found:
            return {}
        cut = read_cut(self._connection, sorted({topic for topic, _ in found}), timeout_seconds=self._timeout)
        same = {topic.topic for topic in cut.topics if topic.id == ids[topic.topic]}
        return {partition: end for partition, end in found.items() if partition[0] in same}
