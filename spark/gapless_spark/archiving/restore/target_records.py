"""What earlier runs of a restore wrote: targets still hold it, and positions know of it. Must not write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.reading.topic_offsets import read_cut

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.control_topic import ControlTopic
    from gapless_kafka.writing.offset_map import OffsetMap
    from gapless_spark.archiving.restore.works import TopicRestore


def deleted_from_target(
    restores: Sequence[TopicRestore],
    control: ControlTopic,
    connection: KafkaConnection,
    timeout_seconds: float,
    *,
    transactional: bool,
) -> tuple[str, ...]:
    """Return a sentence for each source partition of which the target no longer holds all written records.

    Records before the log start were deleted, by retention or on request; a log that ends before them was truncated.
    Records that compaction removed are not noticed.

    Args:
        restores: with the positions of earlier runs.
        control: their control topic.
        connection: to the target.
        timeout_seconds: of one request.
        transactional: whether positions and offset maps are written together.

    Raises:
        SourceUnreachableError: Kafka does not answer, or denies access.
        ConfigurationError: the control topic cannot be read, or has lost the last positions.
    """
    begun = [restore for restore in restores if any(each.records for each in restore.positions.values())]
    if not begun:
        return ()
    # A transaction that an earlier run left open ends only when this run takes over, so it is not waited for. Maps come
    # first: what they name was written before the ends of the target are read.
    maps = control.offset_maps({restore.work for restore in begun}, settled=False)
    if transactional:
        _refuse_outdated(begun, maps, control)
    cut = read_cut(connection, sorted({restore.target for restore in begun}), timeout_seconds=timeout_seconds)
    logs = {topic.topic: topic for topic in cut.topics}
    sentences = []
    for restore in begun:
        log = logs[restore.target]
        for partition, position in sorted(restore.positions.items()):
            written = maps.get((restore.work, partition))
            number = position.target_partition
            ends = log.high_watermarks or log.end_offsets  # records after an open transaction are there, too
            first, end = log.first_offsets[number], ends[number]
            count = written.records_outside(first, end) if written is not None else 0
            if count:
                sentences.append(
                    f"{restore.target}/{number} holds offsets {first:,} to {end - 1:,}"
                    if end > first
                    else f"{restore.target}/{number} is empty"
                )
                sentences[-1] += (
                    f", and {count:,} of the {position.records:,} records that were restored from partition "
                    f"{partition} of {restore.source} are no longer there."
                )
    return tuple(sentences)


def _refuse_outdated(
    restores: Sequence[TopicRestore], maps: Mapping[tuple[str, int], OffsetMap], control: ControlTopic
) -> None:
    """Raise ConfigurationError if an offset map names records after the position of its partition.

    The positions were read before the maps, so those that seem to be older are read again.
    """
    newest = None
    for restore in restores:
        for partition, known in sorted(restore.positions.items()):
            written = maps.get((restore.work, partition))
            if written is None or written.next_offset <= known.next_offset:
                continue
            newest = newest or control.state()
            position = newest.positions(restore.work).get(partition, known)
            if written.next_offset > position.next_offset:
                raise ConfigurationError(
                    f"The position of partition {partition} of {restore.source} is older than the records in "
                    f"{restore.target}: the control topic {control.name} says that it was restored up to offset "
                    f"{position.next_offset:,}, and its offset map names records up to {written.next_offset:,}. The "
                    f"control topic has lost records, or another program has written to it, so these records would be "
                    f"written twice; restore to another topic."
                )
