"""``gapless audit``: it finds the events that are missing among those received, and writes a bundle of them.

Must not know how a bitmap is built or a bundle written. Neither keys nor offsets are collected or sorted: tasks turn
keys into bitmaps of blocks, Spark merges them by block, and only merged bitmaps reach the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_api.wire.bundle_origin import origin_member
from gapless_archive.store.state_place import open_place
from gapless_kafka.reading.cuts import Cut, slices_of
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_spark.audit.audit_state import AuditState
from gapless_spark.audit.expectation_sources import ExpectationSources
from gapless_spark.audit.first_records import first_key_of
from gapless_spark.model.audit_outcome import OtherRecords, conclude_audit, limit_to_generation
from gapless_spark.model.bitmaps import (
    PARTIAL,
    Received,
    TooManyBlocksError,
    collect_blocks,
    fold_keys,
    merge_bitmaps,
    received_block,
)
from gapless_spark.model.event_keys import FOREIGN, Block, KeyBatch
from gapless_spark.model.gap_detection import compare
from gapless_spark.output.jobs import run as run_job
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.job import MAX_LOCAL_BYTES, Job
from gapless_spark.settings.jobs import JobSettings
from gapless_spark.settings.tables import AuditSettings

if TYPE_CHECKING:
    from confluent_kafka import Message

    from gapless_api.base.settings import Resolved
    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.model.outcome import Conclusion
    from gapless_spark.runtime.task_reading import TaskReading
    from gapless_spark.settings.engine import EngineSettings

FEW_RECORDS = 1_000_000
"""With ``engine=auto``, up to this many unread offsets are read in this process: faster than Spark starts."""
_BATCH_KEYS = 65_536
_SAMPLE_EVERY = 64
"""Of so many records one tells when it arrived; the timestamps of all would take several percent of the time."""


def run(settings: Resolved) -> int:
    """Audit as `settings` say and return the exit code. Raises GaplessError."""
    return run_job(job_of(settings), settings)


def job_of(settings: Resolved) -> Job:
    """Return the job for `settings`. Raises ConfigurationError for invalid expectations and inventories."""
    chosen, job_settings = AuditSettings.of(settings.values), JobSettings.of(settings.values)
    sources = ExpectationSources(chosen, job_settings)
    state = AuditState(open_place(chosen.state, job_settings.store) if chosen.state is not None else None)

    def conclude(connection: KafkaConnection, new: Mapping[Block, Received], cut: Cut) -> Conclusion:
        blocks, foreign = [], 0
        for block, received in state.merge_and_commit(new, cut):
            if block == FOREIGN:
                foreign += received.records
            else:
                blocks.append(received_block(block, received))
        partitions = compare(blocks, sources.expectations, state.frontiers.of, state.unknown_offsets)
        recognised = any(partition.received for partition in partitions)
        first_key = first_key_of(connection, cut) if foreign and not recognised else None
        others = OtherRecords(
            foreign,
            first_key,
            expired=any(topic.expired for topic in cut.topics),
            uncommitted=tuple((topic.topic, topic.uncommitted) for topic in cut.topics),
            held_back=frozenset(
                (partition.topic, partition.partition)
                for partition in partitions
                if state.frontiers.is_held_back((partition.topic, partition.partition))
            ),
        )
        conclusion = conclude_audit(chosen.topics, partitions, others, include_unknown=chosen.include_unknown)
        conclusion = sources.add_to(conclusion)
        details, source = {**conclusion.details, **state.details}, {**conclusion.source, **origin_member(state.origin)}
        conclusion = replace(conclusion, details=details, source=source)
        return limit_to_generation(conclusion, state.restarted)

    def find(reading: TaskReading | None, cut: Cut) -> Conclusion:
        connection = job_settings.kafka.with_client_id("gapless-audit")
        state.check_first_records(connection, cut)
        new = {} if reading is None else received_blocks(reading)
        return conclude(connection, new, recheck_cut(connection, cut, state, job_settings.engine))

    def find_locally(connection: KafkaConnection, cut: Cut, progress: Progress) -> Conclusion | None:
        state.check_first_records(connection, cut)
        records = read_slices(connection, slices_of(cut), progress, headers=False)
        try:
            new = collect_blocks(bitmaps_of(records), max_bytes=MAX_LOCAL_BYTES)
        except TooManyBlocksError:
            return None
        return conclude(connection, new, recheck_cut(connection, cut, state, job_settings.engine))

    def read_bounds() -> None:
        sources.read(state.recorded_logs)
        state.compare_generations(sources.origins, sources.replaced, chosen.new_generation)
        state.record_logs(sources.logs, sources.truncated)

    def is_few(cut: Cut) -> bool:
        return cut.offsets <= FEW_RECORDS

    return Job(
        "audit",
        chosen.topics,
        find,
        find_locally,
        is_few,
        other_topics=tuple(filter(None, [chosen.expect_inventory_topic])),
        previous=state,
        read_bounds=read_bounds,
    )


def recheck_cut(connection: KafkaConnection, cut: Cut, state: AuditState, engine: EngineSettings) -> Cut:
    """Return `cut` with the partitions in which Kafka deleted records during the read marked as expired."""
    if not cut.offsets:
        return cut
    topics = [topic.topic for topic in cut.topics]
    now = read_cut(connection, topics, timeout_seconds=engine.connect_timeout_seconds)
    return state.recheck_expired(connection, cut, now)


def received_blocks(reading: TaskReading) -> dict[Block, Received]:
    """Read with Spark's tasks, and return what was received by block."""
    key = ("topic", "partition", "block")
    partial = reading.fold(bitmaps_of, PARTIAL)
    if reading.tasks == 1:
        return collect_blocks(partial.toArrow().to_batches())
    merged = map_in_arrow(partial.repartition(*key).sortWithinPartitions(*key), merge_bitmaps, PARTIAL)
    return collect_blocks(merged.toArrow().to_batches())


def bitmaps_of(batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
    """Turn the keys of records into rows of `PARTIAL`."""
    return fold_keys(_keys(batches))


def _keys(batches: Iterable[Sequence[Any]]) -> Iterator[KeyBatch]:
    keys: list[bytes | None] = []
    samples: list[tuple[bytes, int]] = []
    for messages in batches:
        keys += [message.key() for message in messages]
        samples += [(message.key(), message.timestamp()[1]) for message in messages[::_SAMPLE_EVERY] if message.key()]
        if len(keys) >= _BATCH_KEYS:
            yield KeyBatch(pa.array(keys, pa.binary()), samples)
            keys, samples = [], []
    if keys:
        yield KeyBatch(pa.array(keys, pa.binary()), samples)
