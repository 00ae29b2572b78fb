"""Which archived topics are restored to which targets, according to settings, the archive and the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from gapless_api.base.archive_bounds import ALL_ARCHIVED, ArchiveBounds
from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import NotArchivedError, generations, names_of, not_archived, only_region, topics
from gapless_archive.catalog.peer_segments import layout_note, uncommitted_note
from gapless_archive.reading import TopicArchive, open_archive
from gapless_spark.archiving.restore.plan import (
    ALL_OFFSETS,
    Limits,
    PartitionPlan,
    Source,
    offsets_out_of_order,
    plan_partition,
    work_id,
)
from gapless_spark.archiving.restore.preflight import Finding, Need
from gapless_spark.archiving.restore.values import IDENTITY, NO, Remapping, SourceTopic

if TYPE_CHECKING:
    from gapless_archive.store.places import Place
    from gapless_kafka.topics.target_topics import TopicDescription
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_kafka.writing.positions import Position, RefusedRecords
    from gapless_spark.archiving.restore.settings import RestoreSettings


@dataclass(slots=True, kw_only=True)
class TopicRestore:
    """One archived topic and its target."""

    source: Source
    archive: TopicArchive
    target: str
    limits: Limits
    work: str = ""
    """The ID of the work; empty while the target does not exist."""
    target_id: str = ""
    target_partitions: int = 0
    """Also of a target that will be created."""
    remapping: Remapping = IDENTITY
    plans: list[PartitionPlan] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    """The position of each source partition when the restore was planned."""
    refused: dict[int, list[RefusedRecords]] = field(default_factory=dict)
    """Records of each source partition that earlier runs skipped, because the target refused them."""

    def has_begun(self, partition: int) -> bool:
        """Whether a part of a source partition was already restored."""
        return partition in self.positions

    @property
    def partition_count(self) -> int:
        """The number of partitions of the archived topic."""
        state = self.archive.state
        return max([state.partition_count, *(number + 1 for number in state.partitions)], default=0)

    def target_partition(self, partition: int) -> int:
        """Return the partition of the target for a source partition."""
        return self.remapping.target(partition, self.target_partitions)

    def empty_partition_end(self, partition: int) -> int | None:
        """Return the end offset of an archived partition without records; ``None`` if it has some, or is unknown."""
        if partition >= self.partition_count or self.archive.covered(partition):
            return None
        limited = self.limits.partitions
        return None if limited is not None and partition not in limited else self.archive.state.head(partition) or 0

    @property
    def records(self) -> int:
        """The number of records left to write."""
        return sum(plan.records for plan in self.plans)

    @property
    def remaining(self) -> list[PartitionPlan]:
        """The partitions with offsets left to write."""
        return [plan for plan in self.plans if plan.ranges]


def limits_of(settings: RestoreSettings) -> Limits:
    """Return the limits of the settings. Raises ConfigurationError."""
    since, until = settings.since, settings.until
    if since is not None and until is not None and until <= since:
        raise ConfigurationError("until must be later than since; correct one of them.")
    return Limits(settings.partitions, settings.offsets or ALL_OFFSETS, since, until)


def open_topics(
    place: Place,
    settings: RestoreSettings,
    begun: Mapping[tuple[str, str], str] = MappingProxyType({}),
    bounds: ArchiveBounds = ALL_ARCHIVED,
) -> tuple[list[TopicRestore], tuple[str, ...]]:
    """Open the archives of the topics that the settings name.

    Args:
        place: the archive.
        settings: of the command.
        begun: the generation of each region and topic that the restore has begun with.
        bounds: the regions and topics that may be read.

    Returns:
        The topics, and the names of those that a restore which follows waits for, because the archive has nothing of
        them yet, or has lost what a prefix had found.

    Raises:
        NotArchivedError: a topic is not in the archive, and the restore does not follow, or had begun with it.
        ConfigurationError: no topic is named, one is not allowed, or settings contradict each other.
        GaplessError: the archive cannot be read.
    """
    sources = [*settings.source, *(SourceTopic(settings.region, topic) for topic in settings.topics)]
    if not sources:
        raise ConfigurationError("No topic is named; give --topics=TOPIC, or --source=REGION/TOPIC.")
    limits, opened, absent = limits_of(settings), dict[tuple[str, str], TopicRestore](), list[str]()
    for named in sources:
        try:
            for archive in _open_matching(place, named, settings, begun, bounds):
                source = Source(archive.chain.region, archive.chain.topic, archive.chain.topic_id)
                target = named.target or settings.to_topic or source.topic
                opened[str(source), target] = TopicRestore(source=source, archive=archive, target=target, limits=limits)
        except NotArchivedError:
            has_begun = any(topic == named.topic for _, topic in begun)
            if settings.plan or not settings.follow or has_begun:
                raise
            absent.append(named.archived)
    restores = list(opened.values())
    if settings.follow:
        # A prefix no longer finds a topic that the archive has lost; a topic that is named is an error above.
        found = {(each.source.region, each.source.topic) for each in restores}
        absent += [f"{region}/{topic}" for region, topic in sorted(begun.keys() - found)]
    if settings.generation is not None and len(restores) > 1:
        raise ConfigurationError(
            "generation is the ID of one topic, but several topics are named; restore one topic at a time."
        )
    twice = {each.source for each in restores if sum(other.source == each.source for other in restores) > 1}
    if twice:
        raise ConfigurationError(f"{min(map(str, twice))} is named with two targets; restore to one at a time.")
    return restores, tuple(absent)


def _open_matching(
    place: Place,
    named: SourceTopic,
    settings: RestoreSettings,
    begun: Mapping[tuple[str, str], str],
    bounds: ArchiveBounds,
) -> Iterator[TopicArchive]:
    region, matching = only_region(place, named.region), [named.topic]
    if named.topic.endswith("*"):
        matching = [topic for topic in topics(place, region) if topic.startswith(named.topic[:-1])]
    if not matching:
        raise not_archived(place, region, named.topic)
    bounds.check(region, what="The restore")
    bounds.check_matching(named.topic, matching, what="The restore")
    for topic in matching:
        topic_id = settings.generation or begun.get((region, topic))
        yield open_archive(place, topic, region=region, topic_id=topic_id)


def plan_restores(
    restores: Sequence[TopicRestore],
    described: Mapping[str, TopicDescription],
    state: ControlState | None,
    settings: RestoreSettings,
) -> None:
    """Plan the offsets of each topic that are left to write.

    Args:
        restores: the topics; their plans are replaced.
        described: the targets that exist.
        state: the content of the control topic; ``None`` if it does not exist.
        settings: of the command.

    Raises:
        ConfigurationError: records would be written out of order, or twice.
    """
    remapping = settings.remap_partitions or IDENTITY
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
        restore.remapping = remapping
        positions = state.positions(restore.work) if state is not None and restore.work else {}
        restore.positions = positions
        restore.refused = state.refused(restore.work) if state is not None and restore.work else {}
        restore.plans = []
        for partition in _partitions(restore):
            target, position = restore.target_partition(partition), positions.get(partition)
            if position is not None and position.target_partition != target:
                raise ConfigurationError(
                    f"Partition {partition} of {restore.source} was restored to partition {position.target_partition} "
                    f"of {restore.target} before, but would be restored to {target} now; use the same "
                    f"--remap-partitions, or another topic."
                )
            done = position.ranges if position is not None else OffsetRanges()
            plan = plan_partition(restore.archive, partition, target, restore.limits, done)
            conflict = offsets_out_of_order(plan, position)
            if conflict is not None:
                raise ConfigurationError(
                    f"Offsets {conflict.first}-{conflict.last} of partition {partition} of {restore.source} would be "
                    f"written out of order, after later ones that {restore.target} already holds; restore to another "
                    f"topic with --to-topic, or leave them out with --offsets."
                )
            restore.plans.append(plan)


def _partitions(restore: TopicRestore) -> Iterator[int]:
    limited = restore.limits.partitions
    for partition in restore.archive.state.partitions:
        if limited is None or partition in limited:
            yield partition
    if limited is not None and max(limited) >= restore.partition_count:
        raise ConfigurationError(
            f"{restore.source} has {restore.partition_count} partitions, but the setting partitions names "
            f"{max(limited)}; correct the number."
        )


def _refuse_other_limits(restore: TopicRestore, state: ControlState | None) -> None:
    """Refuse a target that has records of the same source with other time limits. Raises ConfigurationError."""
    if state is None:
        return
    for work, run in state.works(restore.target_id).items():
        is_same = run.source == str(restore.source) and run.source_id == restore.source.topic_id
        if is_same and work != restore.work and any(each.records for each in state.positions(work).values()):
            raise ConfigurationError(
                f"{restore.target} holds records of {restore.source} that were restored with other values of --since "
                f"and --until, so some would be duplicated; use the same values, or restore to another topic."
            )


def needs_of(restores: Sequence[TopicRestore], settings: RestoreSettings) -> list[Need]:
    """Return the requirements for each target, for the preflight check."""
    needs = []
    for target in dict.fromkeys(restore.target for restore in restores):
        same_target = [restore for restore in restores if restore.target == target]
        plans = [plan for restore in same_target for plan in restore.remaining]
        sizes: dict[int, int] = {}
        for plan in plans:
            sizes[plan.target_partition] = sizes.get(plan.target_partition, 0) + plan.bytes
        configuration = same_target[0].archive.state.configuration
        largest = max((each.archive.state.configuration.get("max.message.bytes", "0") for each in same_target), key=int)
        if int(largest):
            configuration["max.message.bytes"] = largest
        needs.append(
            Need(
                topic=target,
                source_ids=frozenset(restore.source.topic_id for restore in same_target),
                source_partitions=max(restore.partition_count for restore in same_target),
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


def layout_findings(restores: Sequence[TopicRestore]) -> list[Finding]:
    """Return what the layout of kafka-replicator does not preserve, and what it has written after the last commit."""
    return [
        Finding(refuses=False, sentence=f"{restore.source}: {note}.")
        for restore in restores
        for note in (layout_note(restore.archive.chain), uncommitted_note(restore.archive.state))
        if note
    ]


def generation_findings(restores: Sequence[TopicRestore], settings: RestoreSettings) -> list[Finding]:
    """Return which generation is restored, of topics of which the archive has several and none was chosen."""
    findings = []
    for restore in restores:
        region, topic, topic_id = restore.source.region, restore.source.topic, restore.source.topic_id
        others = set(generations(restore.archive.place, region, topic)) - {topic_id}
        if others and settings.generation is None:
            chosen = "which it has begun with" if settings.follow else "the newest according to its commits"
            sentence = (
                f"{restore.source}: the archive has {len(others) + 1} generations; {topic_id} is restored, {chosen}, "
                f"and not {', '.join(names_of(others))}."
            )
            findings.append(Finding(refuses=False, sentence=sentence))
    return findings


def missing_segment_findings(restores: Sequence[TopicRestore], *, skips: bool) -> list[Finding]:
    """Return the first unexplained hole of each partition.

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
