"""How target topics follow source topics while a mirror runs: their names, creation, and added partitions.

Only topics that are new, have grown, or could not be copied are checked at each refresh; all of them periodically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.allowed_topics import HiddenTopicError
from gapless_api.base.errors import ConfigurationError
from gapless_mirror.lanes.sources import Routes, TopicProblem

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_mirror.topics.keeper import KeepResult, TopicKeeper

_REFUSES, _RECREATED = "TargetRefuses", "TopicRecreated"
_REFRESHES_PER_FULL_CHECK = 20
log = structlog.get_logger("mirror")


class TopicRouter:
    """Names and creates target topics. See `gapless_mirror.lanes.sources.Router`."""

    def __init__(
        self, keeper: TopicKeeper, *, refuse: Callable[[str], None] = lambda _topic: None, follows_recreated: bool
    ) -> None:
        """Kafka is not called before `routes`.

        Args:
            keeper: of the topics.
            refuse: raises ConfigurationError for a source topic that must not be copied.
            follows_recreated: whether a recreated topic may have fewer partitions than before.
        """
        self._keeper, self._refuse, self._follows_recreated = keeper, refuse, follows_recreated
        self._targets: dict[str, str] = {}
        self._partitions: dict[str, int] = {}
        """The number of partitions of source topics whose target has as many."""
        self._max_partitions: dict[str, int] = {}
        """The highest number of partitions of a source topic since this program started."""
        self._refreshes = 0
        self._logged: set[str] = set()

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """Name the target of each topic, and create missing topics and partitions.

        Raises:
            ConfigurationError: at the first refresh, for a topic that must not be copied.
            SourceUnreachableError: a cluster does not answer, or denies access.
        """
        counts = {cut.topic: len(cut.first_offsets) for cut in topics}
        checks_all = self._refreshes % _REFRESHES_PER_FULL_CHECK == 0
        self._refreshes += 1
        unchecked = {topic for topic, count in counts.items() if checks_all or self._partitions.get(topic) != count}
        problems: list[TopicProblem] = []
        allowed, refused = [], set()
        for topic in counts:
            try:
                self._refuse(topic)
                allowed += [topic] if topic in unchecked else []
            except ConfigurationError as error:
                if self._refreshes == 1:
                    raise
                refused.add(topic)
                problem = TopicProblem("" if isinstance(error, HiddenTopicError) else topic, _REFUSES, str(error))
                problems += [] if problem in problems else [problem]
        if allowed:
            problems += self._create_targets(allowed, counts)
        for problem in problems:
            if problem.message not in self._logged:
                self._logged.add(problem.message)
                log.warning("topic not copied", topic=problem.topic, reason=problem.message)
        refused |= {problem.topic for problem in problems}
        return Routes({topic: self._targets[topic] for topic in counts if topic not in refused}, tuple(problems))

    def _create_targets(self, topics: Sequence[str], counts: dict[str, int]) -> list[TopicProblem]:
        copied = {} if self._follows_recreated else {topic: self._max_partitions.get(topic, 0) for topic in topics}
        kept = self._keeper.keep(topics, copied)
        self._log(kept)
        for topic, target in kept.targets.items():
            self._targets[topic] = target
            if kept.partitions[topic] >= counts[topic]:
                self._partitions[topic] = counts[topic]
            self._max_partitions[topic] = max(self._max_partitions.get(topic, 0), counts[topic])
        for refusal in kept.refusals:
            self._partitions.pop(refusal.topic, None)
        return [
            TopicProblem(
                refusal.topic,
                _RECREATED if counts[refusal.topic] < copied.get(refusal.topic, 0) else refusal.reason,
                refusal.sentence,
            )
            for refusal in kept.refusals
        ]

    def _log(self, kept: KeepResult) -> None:
        if kept.created:
            log.info("topics created", topics=list(kept.created))
        if kept.grown:
            log.info("partitions added", topics=list(kept.grown))
        for warning in kept.warnings:
            if warning not in self._logged:
                self._logged.add(warning)
                log.warning(warning)
