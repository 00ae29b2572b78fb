"""Owns how chosen offsets become the orders of slots; must not know how an order is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import absent_text
from gapless_spark.archiving.restore.plan import slots_of
from gapless_spark.archiving.restore.task import PartitionOrder, SlotOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import PlaceAddress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.writer import WriterOptions
    from gapless_spark.archiving.restore.plan import PartitionPlan
    from gapless_spark.archiving.restore.works import TopicRestore


@dataclass(frozen=True, slots=True)
class Chosen:
    """Offsets of a partition that are written now."""

    restore: TopicRestore
    plan: PartitionPlan
    ranges: OffsetRanges
    skips_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What all orders of a run have in common."""

    epochs: Mapping[str, int]
    """By work."""
    place: PlaceAddress
    access: S3Access
    connection: KafkaConnection
    options: WriterOptions
    batch_size: int


def orders_of(restore: TopicRestore, chosen: Sequence[Chosen], slots: int, common: Common) -> list[SlotOrder]:
    """What of one topic is written now, distributed to so many slots at most."""
    mine = {one.plan.partition: one for one in chosen if one.restore.source == restore.source}
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
            partitions=tuple(_partition(mine[plan.partition]) for plan in plans),
        )
        for number, plans in enumerate(slots_of([one.plan for one in mine.values()], slots))
    ]


def _partition(one: Chosen) -> PartitionOrder:
    return PartitionOrder(one.plan.partition, one.plan.target_partition, absent_text(one.ranges), one.skips_lost)
