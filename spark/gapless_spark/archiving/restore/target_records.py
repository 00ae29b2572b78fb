"""Owns the check that targets still hold the records that earlier runs of a restore wrote; must not write any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.reading.topic_offsets import read_cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.control_topic import ControlTopic
    from gapless_spark.archiving.restore.works import TopicRestore


def deleted_from_target(
    restores: Sequence[TopicRestore], control: ControlTopic, connection: KafkaConnection, timeout_seconds: float
) -> tuple[str, ...]:
    """Return a sentence for each source partition of which the target no longer holds all written records.

    Records before the log start were deleted, by retention or on request; a log that ends before them was truncated.
    Records that compaction removed are not noticed.

    Raises:
        SourceUnreachableError: Kafka does not answer, or denies access.
        ConfigurationError: the control topic cannot be read.
    """
    begun = [restore for restore in restores if any(each.records for each in restore.positions.values())]
    if not begun:
        return ()
    # A transaction that an earlier run left open ends only when this run takes over, so it is not waited for. Maps come
    # first: what they name was written before the ends of the target are read.
    maps = control.offset_maps({restore.work for restore in begun}, settled=False)
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
