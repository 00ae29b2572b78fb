"""Owns what a lane knows about the source: which topics are copied, under which names, and how far they reach; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gapless_kafka.mirror.lanes.identity import lane_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    """Where source topics go."""

    targets: Mapping[str, str]
    """The target topic of each source topic that is copied; it exists with as many partitions or more."""
    problems: tuple[TopicProblem, ...] = ()


class Router(Protocol):
    """The rule that names target topics and makes sure that they exist."""

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """Name the target of each source topic, and create or grow it where it is missing.

        Called with all source topics of the mirror at each refresh, by every process of the mirror; so it is
        idempotent.

        Raises:
            GaplessError: Kafka does not answer, or denies what no topic can do without.
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
    former: Mapping[int, int] = field(default_factory=dict)
    """By partition: the position of the program whose work the mirror continues, where that had one."""

    def begin_offset(self, partition: int) -> int:
        """Where a partition begins that the mirror has no position of."""
        return self.former.get(partition, self.first_offsets[partition])


@dataclass(frozen=True, slots=True)
class SourceView:
    """All that is copied, as it was at the last refresh."""

    topics: Mapping[str, SourceTopic] = field(default_factory=dict)
    """By name."""
    problems: tuple[TopicProblem, ...] = ()
    number: int = 0
    """Counts refreshes; a later view has a higher number."""

    def places(self, lane: int, lanes: int) -> Iterator[tuple[SourceTopic, int]]:
        """The source partitions of a lane."""
        for topic in self.topics.values():
            for partition in range(len(topic.first_offsets)):
                if lane_of(topic.name, partition, lanes) == lane:
                    yield topic, partition


def view_of(
    cuts: Sequence[TopicCut], routes: Routes, *, number: int, former: Mapping[TopicPartition, int] | None = None
) -> SourceView:
    """What a refresh has found.

    Args:
        cuts: of the source topics.
        routes: where they go.
        number: see `SourceView`.
        former: positions of the program whose work the mirror continues.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), position in (former or {}).items():
        by_topic.setdefault(topic, {})[partition] = position
    topics = {
        cut.topic: SourceTopic(
            cut.topic,
            cut.id,
            routes.targets[cut.topic],
            cut.first_offsets,
            cut.end_offsets,
            cut.high_watermarks,
            by_topic.get(cut.topic, {}),
        )
        for cut in cuts
        if cut.topic in routes.targets
    }
    return SourceView(topics, routes.problems, number)
