"""Owns how topics of the target follow those of the source while a mirror runs: named, created, given partitions.

Kafka is asked about topics that are new, have grown, or could not be copied; about all of them now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.mirror.lanes.sources import Routes, TopicProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gapless_kafka.mirror.topics.keeper import Kept, TopicKeeper
    from gapless_kafka.reading.cuts import TopicCut

_REFUSES, _RECREATED = "TargetRefuses", "TopicRecreated"
_ALL_EVERY = 20
"""Of how many looks one asks about all topics."""
log = structlog.get_logger("mirror")


class TopicRouter:
    """Names the targets, and makes sure that they are there. See `gapless_kafka.mirror.lanes.sources.Router`."""

    def __init__(
        self, keeper: TopicKeeper, *, refuse: Callable[[str], None] = lambda _topic: None, follows_recreated: bool
    ) -> None:
        """Nothing is asked yet.

        Args:
            keeper: of the topics.
            refuse: raises ConfigurationError for a source topic that would come back from the target.
            follows_recreated: whether a topic that was recreated may have fewer partitions than before.
        """
        self._keeper, self._refuse, self._follows_recreated = keeper, refuse, follows_recreated
        self._targets: dict[str, str] = {}
        self._partitions: dict[str, int] = {}
        """Of source topics whose target has as many."""
        self._most: dict[str, int] = {}
        """How many partitions a source topic had, the most since this program began."""
        self._looks = 0
        self._told: set[str] = set()

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """Name the target of each topic, and create or grow it where it is missing.

        Raises:
            ConfigurationError: at the first look, for a topic that would come back from the target.
            SourceUnreachableError: a cluster does not answer, or denies it.
        """
        counts = {cut.topic: len(cut.first_offsets) for cut in topics}
        asks_all = self._looks % _ALL_EVERY == 0
        self._looks += 1
        unsure = {topic for topic, count in counts.items() if asks_all or self._partitions.get(topic) != count}
        problems: list[TopicProblem] = []
        allowed = []
        for topic in counts:
            try:
                self._refuse(topic)
                allowed += [topic] if topic in unsure else []
            except ConfigurationError as error:
                if self._looks == 1:
                    raise
                problems.append(TopicProblem(topic, _REFUSES, str(error)))
        if allowed:
            problems += self._keep(allowed, counts)
        for problem in problems:
            if problem.message not in self._told:
                self._told.add(problem.message)
                log.warning("topic not copied", topic=problem.topic, reason=problem.message)
        bad = {problem.topic for problem in problems}
        return Routes({topic: self._targets[topic] for topic in counts if topic not in bad}, tuple(problems))

    def _keep(self, topics: Sequence[str], counts: dict[str, int]) -> list[TopicProblem]:
        copied = {} if self._follows_recreated else {topic: self._most.get(topic, 0) for topic in topics}
        kept = self._keeper.keep(topics, copied)
        self._tell(kept)
        for topic, target in kept.targets.items():
            self._targets[topic] = target
            if kept.partitions[topic] >= counts[topic]:
                self._partitions[topic] = counts[topic]
            self._most[topic] = max(self._most.get(topic, 0), counts[topic])
        for refusal in kept.refusals:
            self._partitions.pop(refusal.topic, None)
        return [
            TopicProblem(
                refusal.topic,
                _RECREATED if counts[refusal.topic] < copied.get(refusal.topic, 0) else _REFUSES,
                refusal.sentence,
            )
            for refusal in kept.refusals
        ]

    def _tell(self, kept: Kept) -> None:
        if kept.created:
            log.info("topics created", topics=list(kept.created))
        if kept.grown:
            log.info("partitions added", topics=list(kept.grown))
        for warning in kept.warnings:
            if warning not in self._told:
                self._told.add(warning)
                log.warning(warning)
