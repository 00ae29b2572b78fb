"""Owns ``gapless audit``: what the received events show to be missing becomes a bundle.

Must not know how a bitmap is built or a bundle written. Neither keys nor offsets are collected or sorted: tasks turn
keys into bitmaps of blocks, these are joined where their block belongs, and only runs of offsets come back.
``python -m gapless_spark.audit --spec job.yaml`` is the same for spark-submit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_spark.completeness import ReceivedBlock, compare
from gapless_spark.expectations import parse_expectations
from gapless_spark.jobs import Job
from gapless_spark.jobs import run as run_job
from gapless_spark.outcome import Conclusion, conclude_audit
from gapless_spark.received import PARTIAL, RUNS, is_foreign, joined_runs, offsets_of, partial_bitmaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from gapless_api.settings import Resolved
    from gapless_spark.kafka_source import Cut


def run(settings: Resolved) -> int:
    """Audit as `settings` say and return the exit code. Raises GaplessError."""
    topics = settings.values["topics"]
    expected = parse_expectations(settings.values["expect"], settings.values["expectFile"])

    def find(records: DataFrame | None, _cut: Cut) -> Conclusion:
        blocks, foreign = ([], 0) if records is None else received_blocks(records)
        return conclude_audit(topics, compare(blocks, expected), foreign)

    return run_job(Job("audit", topics, ("key",), find), settings)


def received_blocks(records: DataFrame) -> tuple[list[ReceivedBlock], int]:
    """The blocks of all source partitions, and how many records have a key that is no event's."""
    partial = records.mapInArrow(partial_bitmaps, PARTIAL)
    places = ("topic", "partition", "block")
    runs = partial.repartition(*places).sortWithinPartitions(*places).mapInArrow(joined_runs, RUNS)
    blocks, foreign = [], 0
    for row in runs.toArrow().to_pylist():
        if is_foreign(row["topic"]):
            foreign += row["records"]
        else:
            block = (row["topic"], row["partition"], row["block"], row["records"], row["offsets"])
            blocks.append(ReceivedBlock(*block, offsets_of(row["firsts"]), offsets_of(row["lasts"])))
    return blocks, foreign


if __name__ == "__main__":
    from gapless_spark.spec import main

    main("audit")
