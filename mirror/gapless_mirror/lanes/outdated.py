"""Which committed positions are older than the copies in the target: copying from them would write copies again.

So it is after the control topic has lost its last records (an unclean leader election, a restored disk), or another
program has written to it. Nothing tells but the records: those that the target has beyond the position are compared
with those that would be copied next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import SourceStalledError
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.looking import look_at_records
from gapless_mirror.lanes.target_tail import FoundRecord, found_record

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.reader import Batch
    from gapless_mirror.lanes.records import LanePosition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic

POSITION_OUTDATED = "PositionOutdated"
"""The reason for which a partition stops whose position is older than the copies in the target."""
_TARGET_OFFSETS, _SOURCE_OFFSETS = 1000, 100
"""How many offsets behind the position are compared."""
_MARKER_OFFSETS = 1
"""Of the transaction with the last copy, behind it."""
Offsets = tuple[int, int]
"""The first offset, and the one after the last."""


class Outdated(NamedTuple):
    """Source partitions from whose positions nothing may be copied."""

    certain: set[TopicPartition]
    """The target has the next records already."""
    unknown: set[TopicPartition]
    """What the target has behind the position cannot be read."""


def outdated_positions(
    positions: Mapping[TopicPartition, tuple[SourceTopic, LanePosition]], setup: LaneSetup, pulse: Callable[[], None]
) -> Outdated:
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
        return Outdated(set(), set())
    behind = {each: offsets for each, found in positions.items() if (offsets := _behind(each, *found))}
    if not behind:
        return Outdated(set(), set())
    own = setup.provenance.source_id
    copied: dict[TopicPartition, set[int]] = {}
    targets = {(positions[each][0].target, each[1]): each for each in behind}
    ranges = {target: behind[each] for target, each in targets.items()}
    found, damaged = _records(setup.target, ranges, pulse)
    for target, records in found.items():
        source = targets[target]
        is_marked = setup.provenance.adds(source[0])
        contents = {hash(record.content) for record in records if own in record.chain or not is_marked}
        if contents:
            copied[source] = contents
    nexts = {each: _next(*positions[each], each[1]) for each in copied}
    returned = setup.provenance.has_returned
    found, _ = _records(setup.source, nexts, pulse)  # what cannot be read in the source stops its partition anyway
    outdated = {
        source
        for source, records in found.items()
        if any(hash(record.content) in copied[source] for record in records if not returned(record.chain))
    }
    return Outdated(outdated, {targets[target] for target in damaged} - outdated)


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
) -> tuple[dict[TopicPartition, list[FoundRecord]], set[TopicPartition]]:
    """Return the committed records of some offsets of each partition, and the partitions that cannot be read there."""
    found: dict[TopicPartition, list[FoundRecord]] = {}

    def is_enough(batch: Batch) -> bool:
        end = ranges[batch.topic_partition][1]
        records = (found_record(message) for message in batch.messages if message.offset() < end)
        found.setdefault(batch.topic_partition, []).extend(records)
        return bool(batch.messages[-1].offset() >= end - 1)

    starts = {each: first for each, (first, end) in ranges.items() if first < end}
    looked = look_at_records(connection, starts, is_enough, pulse, queue_kib=2048)
    if looked.unread:
        raise SourceStalledError(
            f"Kafka at {connection.bootstrap_servers} did not return the records that tell whether the positions of "
            f"the mirror are up to date; check the brokers."
        )
    return found, looked.damaged
