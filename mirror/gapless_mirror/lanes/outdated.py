"""Owns which committed positions are older than the copies in the target: copying from them would write copies again.

So it is after the control topic has lost its last records (an unclean leader election, a restored disk), or another
program has written to it. Nothing tells but the records: those that the target has beyond the position are compared
with those that would be copied next.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from gapless_api.base.errors import SourceStalledError
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.reader import LaneReader
from gapless_mirror.lanes.target_tail import found_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.records import LanePosition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic
    from gapless_mirror.lanes.target_tail import FoundRecord

POSITION_OUTDATED = "PositionOutdated"
"""The reason for which a partition stops whose position is older than the copies in the target."""
_TARGET_OFFSETS, _SOURCE_OFFSETS = 1000, 100
"""How many offsets behind the position are compared."""
_MARKER_OFFSETS = 1
"""Of the transaction with the last copy, behind it."""
_TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS = 0.2
Offsets = tuple[int, int]
"""The first offset, and the one after the last."""


def outdated_positions(
    positions: Mapping[TopicPartition, tuple[SourceTopic, LanePosition]], setup: LaneSetup, pulse: Callable[[], None]
) -> set[TopicPartition]:
    """Return the source partitions whose next records the target has already, behind the last copy of the position.

    Records of other programs may be there, too. Without transactions, copies without a position are expected.

    Args:
        positions: as committed, with the topics as both clusters have them now.
        setup: what all lanes have in common.
        pulse: called while waiting for Kafka.

    Raises:
        SourceStalledError: a cluster does not answer.
        KafkaException: a cluster rejects a request.
    """
    if not setup.transactional:
        return set()
    behind = {each: offsets for each, found in positions.items() if (offsets := _behind(each, *found))}
    if not behind:
        return set()
    own = setup.provenance.source_id
    copied: dict[TopicPartition, set[int]] = {}
    targets = {(positions[each][0].target, each[1]): each for each in behind}
    ranges = {target: behind[each] for target, each in targets.items()}
    for target, record in _records(setup.target, ranges, pulse):
        source = targets[target]
        if own in record.chain or not setup.provenance.adds(source[0]):
            copied.setdefault(source, set()).add(hash(record.content))
    nexts = {each: _next(*positions[each], each[1]) for each in copied}
    returned = setup.provenance.has_returned
    return {
        source
        for source, record in _records(setup.source, nexts, pulse)
        if not returned(record.chain) and hash(record.content) in copied[source]
    }


def _behind(topic_partition: TopicPartition, topic: SourceTopic, position: LanePosition) -> Offsets | None:
    """Return the offsets of the target behind the position; ``None`` if nothing is there, or nothing is copied next."""
    copy, (name, number) = topic.copy, topic_partition
    is_same = copy is not None and position.target == topic.target and position.target_id in {"", copy.id}
    if not is_same or copy is None or name == HEARTBEAT_TOPIC or number >= len(copy.end_offsets):
        return None
    end, last = copy.end_offsets[number], position.target_end or 0
    if not last or end <= last + _MARKER_OFFSETS or topic.end_offsets[number] <= position.next_offset:
        return None
    first = max(last, copy.first_offsets[number])
    return first, min(end, first + _TARGET_OFFSETS)


def _next(topic: SourceTopic, position: LanePosition, number: int) -> Offsets:
    first = max(position.next_offset, topic.first_offsets[number])
    return first, min(topic.end_offsets[number], first + _SOURCE_OFFSETS)


def _records(
    connection: KafkaConnection, ranges: Mapping[TopicPartition, Offsets], pulse: Callable[[], None]
) -> Iterable[tuple[TopicPartition, FoundRecord]]:
    """Yield the committed records of some offsets of each partition."""
    pending = {each: offsets for each, offsets in ranges.items() if offsets[0] < offsets[1]}
    reader = LaneReader(connection, queue_kib=2048)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        reader.add({each: first for each, (first, _) in pending.items()})
        while pending:
            pulse()
            if time.monotonic() > deadline:
                raise SourceStalledError(
                    f"Kafka at {connection.bootstrap_servers} did not return the records that tell whether the "
                    f"positions of the mirror are up to date; check the brokers."
                )
            reading = reader.read(5000, _WAIT_SECONDS)
            for _, error in reading.errors:
                raise KafkaException(error)
            done = pending.keys() & (reading.ends.keys() | reading.damaged.keys())
            for batch in reading.batches:
                end = pending.get(batch.topic_partition, (0, 0))[1]
                for message in batch.messages:
                    if message.offset() < end:
                        yield batch.topic_partition, found_record(message)
                if end and batch.messages[-1].offset() >= end - 1:
                    done.add(batch.topic_partition)
            for each in done:
                del pending[each]
            reader.drop(done)
    finally:
        reader.close()
