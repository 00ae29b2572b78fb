"""Owns ``gapless audit``: what the received events show to be missing becomes a bundle.

Must not know how a bitmap is built or a bundle written. Neither keys nor offsets are collected or sorted: tasks turn
keys into bitmaps of blocks, these are joined where their block belongs, and only joined bitmaps come back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_archive.store.state_place import open_place
from gapless_kafka.reading.cuts import slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_spark.audit.expected_by import ExpectedBy
from gapless_spark.audit.first_records import first_key_of
from gapless_spark.audit.memory import AuditMemory
from gapless_spark.model.audit_outcome import OtherRecords, conclude_audit, told_of_one_generation
from gapless_spark.model.bitmaps import (
    PARTIAL,
    Received,
    TooManyBlocksError,
    collect_blocks,
    fold_keys,
    merge_bitmaps,
    received_block,
)
from gapless_spark.model.event_keys import FOREIGN, Block
from gapless_spark.model.gap_detection import compare
from gapless_spark.output.jobs import run as run_job
from gapless_spark.runtime.job import MOST_LOCAL_BYTES, Job
from gapless_spark.settings.typed import AuditSettings, JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from gapless_api.base.settings import Resolved
    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.runtime.task_reading import TaskReading
    from gapless_spark.settings.typed import EngineSettings

FEW_RECORDS = 1_000_000
"""So many new offsets are read in this process with ``engine=auto``, which is over before Spark would have started."""
_KEYS_IN_A_BATCH = 65_536


def run(settings: Resolved) -> int:
    """Audit as `settings` say and return the exit code. Raises GaplessError."""
    return run_job(job_of(settings), settings)


def job_of(settings: Resolved) -> Job:
    """What to do for `settings`. Raises ConfigurationError for expectations and inventories that are none."""
    chosen, told = AuditSettings.of(settings.values), JobSettings.of(settings.values)
    expected_by = ExpectedBy(chosen, told)
    memory = AuditMemory(open_place(chosen.state, told.store) if chosen.state is not None else None)

    def conclusion(connection: KafkaConnection, new: Mapping[Block, Received], cut: Cut) -> Conclusion:
        blocks, foreign = [], 0
        for block, received in memory.recall(new, cut):
            if block == FOREIGN:
                foreign += received.records
            else:
                blocks.append(received_block(block, received))
        found = compare(blocks, expected_by.expectations, memory.frontiers.of)
        recognised = any(partition.received for partition in found)
        first_key = first_key_of(connection, cut) if foreign and not recognised else None
        others = OtherRecords(
            foreign,
            first_key,
            expired=any(topic.expired for topic in cut.topics),
            uncommitted=tuple((topic.topic, topic.uncommitted) for topic in cut.topics),
        )
        concluded = conclude_audit(chosen.topics, found, others, include_unknown=chosen.include_unknown)
        concluded = expected_by.named_in(concluded)
        concluded = replace(concluded, details={**concluded.details, **memory.details})
        return told_of_one_generation(concluded, memory.restarted)

    def find(reading: TaskReading | None, cut: Cut) -> Conclusion:
        connection = told.kafka.of_client("gapless-audit")
        memory.look_at_first_records(connection, cut)
        new = {} if reading is None else received_blocks(reading)
        return conclusion(connection, new, looked_at_again(connection, cut, memory, told.engine))

    def find_locally(connection: KafkaConnection, cut: Cut, progress: Progress) -> Conclusion | None:
        memory.look_at_first_records(connection, cut)
        records = read_slices(connection, slices_of(cut), progress)
        try:
            new = collect_blocks(bitmaps_of(records), max_bytes=MOST_LOCAL_BYTES)
        except TooManyBlocksError:
            return None
        return conclusion(connection, new, looked_at_again(connection, cut, memory, told.engine))

    def read_bounds() -> None:
        expected_by.read()
        memory.compare_generations(expected_by.origins, expected_by.replaced, chosen.new_generation)

    def is_few(cut: Cut) -> bool:
        return memory.goes_on and cut.offsets <= FEW_RECORDS

    return Job(
        "audit",
        chosen.topics,
        find,
        find_locally,
        is_few,
        other_topics=tuple(filter(None, [chosen.expect_inventory_topic])),
        earlier=memory,
        read_bounds=read_bounds,
    )


def looked_at_again(connection: KafkaConnection, cut: Cut, memory: AuditMemory, engine: EngineSettings) -> Cut:
    """What has been read of `cut`, with what Kafka has deleted meanwhile among what has expired."""
    if not cut.offsets:
        return cut
    topics = [topic.topic for topic in cut.topics]
    now = read_cut(connection, topics, timeout_seconds=engine.connect_timeout_seconds)
    return memory.look_again(connection, cut, now)


def received_blocks(reading: TaskReading) -> dict[Block, Received]:
    """What Spark's tasks find to be received, by block."""
    places = ("topic", "partition", "block")
    partial = reading.folded(bitmaps_of, PARTIAL)
    if reading.tasks == 1:
        return collect_blocks(partial.toArrow().to_batches())
    joined = partial.repartition(*places).sortWithinPartitions(*places).mapInArrow(merge_bitmaps, PARTIAL)
    return collect_blocks(joined.toArrow().to_batches())


def bitmaps_of(batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
    """Turn the keys of records into rows of `PARTIAL`."""
    return fold_keys(_keys(batches))


def _keys(batches: Iterable[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
    held: list[bytes | None] = []
    for messages in batches:
        held += [message.key() for message in messages]
        if len(held) >= _KEYS_IN_A_BATCH:
            yield _batch(held)
            held = []
    if held:
        yield _batch(held)


def _batch(keys: list[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, pa.binary())], names=["key"])
