"""How selected offsets are distributed to slots; must not know how a slot writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import absent_text
from gapless_spark.archiving.restore.plan import PartitionPlan, distribute_partitions
from gapless_spark.archiving.restore.task import PartitionOrder, SlotOrder

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import PlaceAddress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.writer import WriterOptions
    from gapless_spark.archiving.restore.works import TopicRestore


@dataclass(frozen=True, slots=True)
class Selection:
    """The offsets of a partition to write now."""

    restore: TopicRestore
    plan: PartitionPlan
    ranges: OffsetRanges
    skip_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all slots of a run have in common."""

    epochs: Mapping[str, int]
    """By work."""
    place: PlaceAddress
    access: S3Access
    connection: KafkaConnection
    options: WriterOptions
    batch_size: int
    skip_refused: bool


def slot_orders(
    restore: TopicRestore, selections: Sequence[Selection], slots: int, common: RunContext
) -> list[SlotOrder]:
    """Distribute the selected offsets of one topic to at most `slots` slots."""
    of_topic = {each.plan.partition: each for each in selections if each.restore.source == restore.source}
    return [
        SlotOrder(
            work=restore.work,
            epoch=common.epochs[restore.work],
            slot=number,
            place=common.place,
            access=common.access,
            connection=common.connection,
            options=common.options,
            source=restore.source,
            limits=restore.limits,
            topic=restore.target,
            topic_id=restore.target_id,
            batch_size=common.batch_size,
            skip_refused=common.skip_refused,
            partitions=tuple(_partition_order(of_topic[plan.partition]) for plan in plans),
        )
        for number, plans in enumerate(distribute_partitions([each.plan for each in of_topic.values()], slots))
    ]


def _partition_order(selection: Selection) -> PartitionOrder:
    plan = selection.plan
    return PartitionOrder(plan.partition, plan.target_partition, absent_text(selection.ranges), selection.skip_lost)
