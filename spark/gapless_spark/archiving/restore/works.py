"""Owns which archived topics a restore is about, and where each goes: from settings, the archive and the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import only_region, topics
from gapless_archive.catalog.peer_segments import layout_note
from gapless_archive.reading import open_archive
from gapless_spark.archiving.restore.plan import ALL_OFFSETS, Limits, Source, order_conflict, plan_partition, work_id
from gapless_spark.archiving.restore.preflight import Finding, Need
from gapless_spark.archiving.restore.values import NO, SAME, SourceTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gapless_archive.reading import TopicArchive
    from gapless_archive.store.places import Place
    from gapless_kafka.topics.target_topics import TopicDescription
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_kafka.writing.positions import Position
    from gapless_spark.archiving.restore.plan import PartitionPlan
    from gapless_spark.archiving.restore.typed import RestoreSettings


@dataclass(slots=True, kw_only=True)
class TopicRestore:
    """One archived topic and its target."""

    source: Source
    archive: TopicArchive
    target: str
    limits: Limits
    work: str = ""
    """The identity of the work; empty while the target does not exist."""
    target_id: str = ""
    target_partitions: int = 0
    """Also of a target that will be created."""
    plans: list[PartitionPlan] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    """How far each source partition was written when this was planned."""

    def has_begun(self, partition: int) -> bool:
        """Whether something of a source partition was restored."""
        return partition in self.positions

    @property
    def partition_count(self) -> int:
        """How many partitions the archived topic has."""
        state = self.archive.state
        return max([state.partition_count, *(number + 1 for number in state.partitions)], default=0)

    @property
    def records(self) -> int:
        """How many records are left to write."""
        return sum(plan.records for plan in self.plans)

    @property
    def left(self) -> list[PartitionPlan]:
        """The partitions in which offsets are left to do."""
        return [plan for plan in self.plans if plan.ranges]


def limits_of(settings: RestoreSettings) -> Limits:
    """What of each topic is restored. Raises ConfigurationError."""
    since, until = settings.since, settings.until
    if since is not None and until is not None and until <= since:
        raise ConfigurationError("until must be later than since; correct one of them.")
    return Limits(settings.partitions, settings.offsets or ALL_OFFSETS, since, until)


def chosen_topics(place: Place, settings: RestoreSettings) -> list[TopicRestore]:
    """Open the archives of the topics that the settings name.

    Raises:
        ConfigurationError: no topic is named, one is not in the archive, or two settings contradict each other.
        GaplessError: the archive cannot be read.
    """
    named = [*settings.source, *(SourceTopic(settings.region, topic) for topic in settings.topics)]
    if not named:
        raise ConfigurationError("No topic is named; give --topics=TOPIC, or --source=REGION/TOPIC.")
    limits, found = limits_of(settings), dict[tuple[str, str], TopicRestore]()
    for each in named:
        for topic in _matching(place, each):
            archive = open_archive(place, topic, region=each.region, topic_id=settings.generation)
            source = Source(archive.chain.region, topic, archive.chain.topic_id)
            target = each.target or settings.to_topic or topic
            found[str(source), target] = TopicRestore(source=source, archive=archive, target=target, limits=limits)
    restores = list(found.values())
    if settings.generation is not None and len(restores) > 1:
        raise ConfigurationError(
            "generation is the topic ID of one topic, and several are named; restore one at a time."
        )
    twice = {each.source for each in restores if sum(other.source == each.source for other in restores) > 1}
    if twice:
        raise ConfigurationError(f"{min(map(str, twice))} is named with two targets; restore to one at a time.")
    return restores


def _matching(place: Place, named: SourceTopic) -> list[str]:
    if not named.topic.endswith("*"):
        return [named.topic]
    region = only_region(place, named.region)
    matching = [topic for topic in topics(place, region) if topic.startswith(named.topic[:-1])]
    if not matching:
        raise ConfigurationError(f"{place.name} has no topic {named.topic} of the region {region}; correct the name.")
    return matching


def plan_restores(
    restores: Sequence[TopicRestore],
    described: Mapping[str, TopicDescription],
    state: ControlState | None,
    settings: RestoreSettings,
) -> None:
    """Plan what is left to do of each topic.

    Args:
        restores: the topics; their plans are replaced.
        described: the targets that exist.
        state: what the control topic holds; ``None`` when there is none.
        settings: of the command.

    Raises:
        ConfigurationError: records would be written in another order, or twice.
    """
    remapping = settings.remap_partitions or SAME
    for restore in restores:
        found = described.get(restore.target)
        if found is not None:
            restore.target_id = found.id or found.name
            restore.work = work_id(restore.source, restore.target, restore.target_id, restore.limits)
            _refuse_other_limits(restore, state)
        same_target = [each for each in restores if each.target == restore.target]
        restore.target_partitions = (
            found.partitions if found is not None else max(each.partition_count for each in same_target)
        )
        positions = state.positions(restore.work) if state is not None and restore.work else {}
        restore.positions = positions
        restore.plans = []
        for partition in _partitions(restore):
            target, position = remapping.target(partition, restore.target_partitions), positions.get(partition)
            if position is not None and position.target_partition != target:
                raise ConfigurationError(
                    f"Partition {partition} of {restore.source} was restored to partition {position.target_partition} "
                    f"of {restore.target} before, and would go to {target} now; use the same --remap-partitions, or "
                    f"another topic."
                )
            done = position.ranges if position is not None else OffsetRanges()
            plan = plan_partition(restore.archive, partition, target, restore.limits, done)
            conflict = order_conflict(plan, position)
            if conflict is not None:
                raise ConfigurationError(
                    f"Offsets {conflict.first}-{conflict.last} of partition {partition} of {restore.source} would "
                    f"follow on later ones that {restore.target} holds already, and their order would be lost; restore "
                    f"to another topic with --to-topic, or leave them out with --offsets."
                )
            restore.plans.append(plan)


def _partitions(restore: TopicRestore) -> Iterator[int]:
    limited = restore.limits.partitions
    for partition in restore.archive.state.partitions:
        if limited is None or partition in limited:
            yield partition
    if limited is not None and max(limited) >= restore.partition_count:
        raise ConfigurationError(
            f"{restore.source} has {restore.partition_count} partitions, and partitions names {max(limited)}; correct "
            f"the number."
        )


def _refuse_other_limits(restore: TopicRestore, state: ControlState | None) -> None:
    """Make sure that the same records were not restored there with other limits of time. Raises ConfigurationError."""
    if state is None:
        return
    for work, run in state.works(restore.target_id).items():
        is_same = run.source == str(restore.source) and run.source_id == restore.source.topic_id
        if is_same and work != restore.work and any(each.records for each in state.positions(work).values()):
            raise ConfigurationError(
                f"{restore.target} holds records of {restore.source} that were restored with other times in --since "
                f"and --until, and some would be there twice; use the same times, or restore to another topic."
            )


def needs_of(restores: Sequence[TopicRestore], settings: RestoreSettings) -> list[Need]:
    """What is needed of each target, for the preflight."""
    needs = []
    for target in dict.fromkeys(restore.target for restore in restores):
        some = [restore for restore in restores if restore.target == target]
        plans = [plan for restore in some for plan in restore.left]
        sizes: dict[int, int] = {}
        for plan in plans:
            sizes[plan.target_partition] = sizes.get(plan.target_partition, 0) + plan.bytes
        configuration = some[0].archive.state.configuration
        largest = max((each.archive.state.configuration.get("max.message.bytes", "0") for each in some), key=int)
        if int(largest):
            configuration["max.message.bytes"] = largest
        needs.append(
            Need(
                topic=target,
                source_ids=frozenset(restore.source.topic_id for restore in some),
                source_partitions=max(restore.partition_count for restore in some),
                partitions=max((plan.target_partition + 1 for plan in plans), default=0),
                remapping=settings.remap_partitions,
                configuration=configuration,
                oldest=min((plan.oldest for plan in plans if plan.oldest is not None), default=None),
                newest=max((plan.newest for plan in plans if plan.newest is not None), default=None),
                largest_partition_bytes=max(sizes.values(), default=0),
                adjusts=settings.adjust_retention != NO,
                replaces_timestamps=settings.timestamps == "replace",
                creates=settings.create_topics,
                replication_factor=settings.replication_factor,
            )
        )
    return needs


def foreign_findings(restores: Sequence[TopicRestore]) -> list[Finding]:
    """What is not as it was in records that are archived in the layout of kafka-replicator."""
    return [
        Finding(refuses=False, sentence=f"{restore.source}: {layout_note(restore.archive.chain)}.")
        for restore in restores
        if layout_note(restore.archive.chain)
    ]


def hole_findings(restores: Sequence[TopicRestore], *, skips: bool) -> list[Finding]:
    """Offsets that the archive should have, the first of each partition.

    Args:
        restores: the topics.
        skips: whether such offsets are skipped.
    """
    return [
        Finding(
            refuses=not skips,
            sentence=f"The archive has no segment for offsets {first}-{last} of partition {plan.partition} of "
            f"{restore.source}; bring the segments back, or give --on-lost=skip to restore the rest.",
        )
        for restore in restores
        for plan in restore.plans
        for first, last in plan.unexplained.head(1)
    ]
