"""Owns that heartbeats are copied beside the topics that were chosen, each mirror's to a topic of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.sources import Routes
from gapless_kafka.mirror.watch.heartbeat import CONFIGURATION
from gapless_kafka.topics.target_topics import DeniedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gapless_kafka.mirror.lanes.identity import MirrorIdentity
    from gapless_kafka.mirror.lanes.sources import Router
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_kafka.topics.target_topics import TargetTopics


class Choice(Protocol):
    """Which topics are copied."""

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """The topics to work on."""


class ChoiceWithHeartbeats:
    """A choice of topics, and heartbeats: those of the source, if any, and never copies of another mirror.

    A rule that fits the topic of heartbeats does not choose it: its copy has another name, if there is one.
    """

    def __init__(self, choice: Choice, *, copies_heartbeats: bool) -> None:
        self._choice = choice
        self._copies_heartbeats = copies_heartbeats

    def chosen(self, existing: Iterable[str]) -> list[str]:
        """See `Choice`."""
        there = set(existing)
        found = {topic for topic in self._choice.chosen(there) if not f"{topic}.".startswith(f"{HEARTBEAT_TOPIC}.")}
        if self._copies_heartbeats and HEARTBEAT_TOPIC in there:
            found.add(HEARTBEAT_TOPIC)
        return sorted(found)


class HeartbeatRoute:
    """Another rule for target topics, and that for heartbeats."""

    def __init__(self, router: Router, identity: MirrorIdentity, targets: TargetTopics) -> None:
        self._router = router
        self._copy = identity.heartbeat_copy
        self._targets = targets
        self._partitions = 0
        """Of the copy, as far as it is known."""

    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        """See `gapless_kafka.mirror.lanes.sources.Router`."""
        beats = next((cut for cut in topics if cut.topic == HEARTBEAT_TOPIC), None)
        others = [cut for cut in topics if cut is not beats]
        routes = self._router.routes(others) if others else Routes({})
        if beats is None:
            return routes
        needed = len(beats.first_offsets)
        try:
            self._ensure(needed)
        except (ConfigurationError, DeniedError):
            return routes  # a mirror works without heartbeats as well
        return Routes({**routes.targets, HEARTBEAT_TOPIC: self._copy}, routes.problems)

    def _ensure(self, partitions: int) -> None:
        if self._partitions >= partitions:
            return
        found = self._targets.describe([self._copy]).get(self._copy)
        if found is None:
            self._targets.create(self._copy, partitions, CONFIGURATION)
        elif found.partitions < partitions:
            self._targets.add_partitions(self._copy, partitions)
        self._partitions = partitions
