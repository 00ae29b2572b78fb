"""A lane's view of the source: which topics are copied, to which targets, and their offsets; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gapless_mirror.lanes.claims import LogNow
from gapless_mirror.lanes.identity import lane_of

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.reading.cuts import TopicCut


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """Why a source topic is not copied, or not completely."""

    topic: str
    reason: str
    """A stall reason, such as TargetRefuses."""
    message: str


@dataclass(frozen=True, slots=True)
class Routes:
    """The target topics of source topics."""

    targets: Mapping[str, str]
    """The target topic of each source topic that is copied; it exists with as many partitions or more."""
    problems: tuple[TopicProblem, ...] = ()
    copies: Mapping[str, TopicCut] = field(default_factory=dict)
    """The target topics as they are now, by their names."""


class Router(Protocol):
    """The rule that names target topics and makes sure that they exist."""

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """Name the target of each source topic, and create missing topics and partitions.

        Every process of the mirror calls this at each refresh with all source topics, so it is idempotent.

        Raises:
            GaplessError: Kafka does not answer, or denies an operation that every topic needs.
        """


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A source topic that is copied, as it was at the last refresh."""

    name: str
    id: str
    """Empty where brokers have none."""
    target: str
    first_offsets: tuple[int, ...]
    """By partition: the start of the log."""
    end_offsets: tuple[int, ...]
    """By partition: the last stable offset."""
    high_watermarks: tuple[int, ...] = ()
    leader_epochs: tuple[int, ...] = ()
    """By partition: an epoch in which the log had reached the end; empty where unknown."""
    copy: TopicCut | None = None
    """The target topic at the last refresh; ``None`` while it is unknown."""
    group_offsets: Mapping[int, int] = field(default_factory=dict)
    """By partition: the committed offset of the consumer group that the mirror continues from, if there is one."""

    @property
    def partitions(self) -> int:
        """Their number."""
        return len(self.first_offsets)

    def log(self, partition: int) -> LogNow:
        """Return the log of a partition, with all records at its end."""
        ends = self.high_watermarks or self.end_offsets
        return LogNow(
            id=self.id,
            start=self.first_offsets[partition],
            end=ends[partition],
            epoch=self.leader_epochs[partition] if self.leader_epochs else -1,
            epoch_end=self.end_offsets[partition],
        )

    def start_offset(self, partition: int) -> int:
        """Return the offset where copying starts if the mirror has no position of the partition."""
        return self.group_offsets.get(partition, self.first_offsets[partition])


@dataclass(frozen=True, slots=True)
class SourceView:
    """All topics to copy, as they were at the last refresh."""

    topics: Mapping[str, SourceTopic] = field(default_factory=dict)
    """By name."""
    problems: tuple[TopicProblem, ...] = ()
    number: int = 0
    """The number of the refresh, ascending."""

    def lane_partitions(self, lane: int, lanes: int) -> Iterator[tuple[SourceTopic, int]]:
        """Iterate over the source partitions of a lane."""
        for topic in self.topics.values():
            for partition in range(len(topic.first_offsets)):
                if lane_of(topic.name, partition, lanes) == lane:
                    yield topic, partition


def build_view(
    cuts: Sequence[TopicCut],
    routes: Routes,
    *,
    number: int,
    group_offsets: Mapping[TopicPartition, int] | None = None,
) -> SourceView:
    """Return the view after a refresh.

    Args:
        cuts: of the source topics.
        routes: their targets.
        number: see `SourceView`.
        group_offsets: committed offsets of the consumer group that the mirror continues from.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in (group_offsets or {}).items():
        by_topic.setdefault(topic, {})[partition] = offset
    topics = {
        cut.topic: SourceTopic(
            cut.topic,
            cut.id,
            routes.targets[cut.topic],
            cut.first_offsets,
            cut.end_offsets,
            cut.high_watermarks,
            cut.leader_epochs,
            copy=routes.copies.get(routes.targets[cut.topic]),
            group_offsets=by_topic.get(cut.topic, {}),
        )
        for cut in cuts
        if cut.topic in routes.targets
    }
    return SourceView(topics, routes.problems, number)
