"""The topics of the target: it describes the topics of both clusters, plans changes, and carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.target_topics import DeniedError, TargetTopics
from gapless_mirror.topics.drift import drift_report
from gapless_mirror.topics.names import RenameRule, topic_names
from gapless_mirror.topics.plan import Growth, Refusal, TopicsPlan, plan_topics

if TYPE_CHECKING:
    from gapless_api.wire.mirror_drift import DriftReport


@dataclass(frozen=True, slots=True)
class KeepResult:
    """What the keeper has changed, and which topics can be copied."""

    created: tuple[str, ...]
    """Topics of the target."""
    grown: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    """Topics that are not copied, each with the reason."""
    warnings: tuple[str, ...]
    targets: Mapping[str, str]
    """The target of each source topic that can be copied."""
    partitions: Mapping[str, int]
    """Of each source topic that can be copied."""


def _nothing_lost(_missing: Mapping[str, str]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class TopicKeeper:
    """Creates and grows the topics of the target; several programs may do so at the same time."""

    source: TargetTopics
    target: TargetTopics
    rule: RenameRule
    creates: bool = True
    """Whether topics are created and partitions added."""
    replication_factor: int = -1
    """-1 for that of the target's brokers."""
    lost: Callable[[Mapping[str, str]], Mapping[str, str]] = _nothing_lost
    """Returns why missing targets must not be created again, by source topic; given missing targets by source topic."""

    def plan(self, topics: Sequence[str], copied: Mapping[str, int]) -> tuple[Mapping[str, str], TopicsPlan]:
        """Name the targets, and plan their creation and growth.

        Args:
            topics: of the source.
            copied: by topic, how many partitions were copied before.

        Raises:
            ConfigurationError: Kafka does not allow a name.
            SourceUnreachableError: a cluster does not answer, or denies access.
        """
        names = topic_names(topics, self.rule)
        source, target = self.source.describe(topics), self.target.describe(list(names.targets.values()))
        defaults = self.target.defaults() if len(target) < len(names.targets) else {}
        missing = {topic: name for topic, name in names.targets.items() if name not in target}
        lost = self.lost(missing) if missing else {}
        plan = plan_topics(
            names.targets, source, target, defaults=defaults, copied=copied, creates=self.creates, lost=lost
        )
        return names.targets, TopicsPlan(
            plan.creations, plan.growths, plan.refusals, (*names.warnings, *plan.warnings), plan.ready
        )

    def keep(self, topics: Sequence[str], copied: Mapping[str, int]) -> KeepResult:
        """Create missing topics and add partitions; a topic for which Kafka refuses that is not copied.

        Raises:
            GaplessError: like `plan`.
        """
        names, plan = self.plan(topics, copied)
        refusals, created, grown = list(plan.refusals), [], []
        for new in plan.creations:
            factor = self.replication_factor
            try:
                self.target.create(new.topic, new.partitions, new.configuration, replication_factor=factor)
                created.append(new.topic)
            except (ConfigurationError, DeniedError) as error:
                refusals.append(Refusal(new.source, str(error)))
        for growth in plan.growths:
            try:
                self.target.add_partitions(growth.topic, growth.partitions)
                grown.append(growth.topic)
            except (ConfigurationError, DeniedError) as error:
                refusals.append(Refusal(growth.source, _cannot_grow(growth, error)))
        refused = {refusal.topic for refusal in refusals}
        ready = {topic: count for topic, count in plan.ready.items() if topic not in refused}
        targets = {topic: names[topic] for topic in ready}
        return KeepResult(tuple(created), tuple(grown), tuple(refusals), plan.warnings, targets, ready)

    def drift(self, topics: Sequence[str]) -> DriftReport:
        """Compare the topics with their copies. Raises like `plan`."""
        names = topic_names(topics, self.rule).targets
        return drift_report(names, self.source.describe(topics), self.target.describe(list(names.values())))


def _cannot_grow(growth: Growth, error: Exception) -> str:
    return (
        f"The target topic {growth.topic} has {growth.before} partitions and its source {growth.source} has "
        f"{growth.partitions}: {error}"
    )
