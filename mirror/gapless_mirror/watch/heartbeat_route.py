"""The copying of heartbeats, besides the selected topics, to a target topic of its own for each mirror."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.topics.target_topics import DeniedError, TargetTopics
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC, MirrorIdentity
from gapless_mirror.lanes.sources import Router, Routes
from gapless_mirror.watch.heartbeat import CONFIGURATION

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut


class Choice(Protocol):
    """The selection of topics to copy."""

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """Return the selected topics, sorted."""


class ChoiceWithHeartbeats:
    """A selection of topics that includes the heartbeats of the source, and excludes copies of heartbeats.

    A rule that matches the heartbeat topic does not select it, because its copy has a name of its own.
    """

    def __init__(self, choice: Choice, *, copies_heartbeats: bool) -> None:
        self._choice = choice
        self._copies_heartbeats = copies_heartbeats

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """See `Choice`."""
        topics = set(existing)
        chosen = {topic for topic in self._choice.chosen(topics) if not f"{topic}.".startswith(f"{HEARTBEAT_TOPIC}.")}
        if self._copies_heartbeats and HEARTBEAT_TOPIC in topics:
            chosen.add(HEARTBEAT_TOPIC)
        return sorted(chosen)


class HeartbeatRoute:
    """A router for heartbeats, which passes other topics to another router."""

    def __init__(self, router: Router, identity: MirrorIdentity, targets: TargetTopics) -> None:
        self._router = router
        self._copy = identity.heartbeat_copy
        self._targets = targets
        self._partitions = 0
        """The known number of partitions of the copy."""

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """See `gapless_mirror.lanes.sources.Router`."""
        heartbeats = next((cut for cut in topics if cut.topic == HEARTBEAT_TOPIC), None)
        others = [cut for cut in topics if cut is not heartbeats]
        routes = self._router.routes(others) if others else Routes({})
        if heartbeats is None:
            return routes
        try:
            self._ensure_copy(len(heartbeats.first_offsets))
        except (ConfigurationError, DeniedError):
            return routes  # heartbeats are optional
        return Routes({**routes.targets, HEARTBEAT_TOPIC: self._copy}, routes.problems)

    def _ensure_copy(self, partitions: int) -> None:
        if self._partitions >= partitions:
            return
        topic = self._targets.describe([self._copy]).get(self._copy)
        if topic is None:
            self._targets.create(self._copy, partitions, CONFIGURATION)
        elif topic.partitions < partitions:
            self._targets.add_partitions(self._copy, partitions)
        self._partitions = partitions
