"""A process's view of the source: the topics to copy, refreshed periodically by a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceStalledError
from gapless_api.base.unexpected import log_unexpected, unexpected_sentence
from gapless_kafka.access.admin import ELECTION_SECONDS
from gapless_kafka.access.errors import DENIED
from gapless_kafka.reading.cuts import TopicCut
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.leaderless import denied_topics, leaderless_by_topic
from gapless_mirror.lanes.sources import Router, Routes, SourceView, TopicProblem, build_view
from gapless_mirror.watch.cluster_watch import END_SECONDS

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.groups.start_group import StartGroup
    from gapless_mirror.watch.heartbeat_route import Choice

log = structlog.get_logger("mirror")
_RETRY_SECONDS = 5.0
"""After a failed refresh."""
_DEBOUNCE_SECONDS = 0.5
"""Requests for a refresh arrive in bursts."""
_DELETED, _LEADERLESS, _DENIED = "TopicRecreated", "LeaderMissing", "AuthorizationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccess:
    """How to reach the source."""

    connection: KafkaConnection
    refresh_seconds: float
    """The interval of refreshes."""
    timeout_seconds: float
    """Of each request."""


class SourceWatch:
    """The topics to copy. Call `refresh` once, then `start`, and `stop` at the end."""

    def __init__(
        self,
        access: SourceAccess,
        choice: Choice,
        router: Router,
        *,
        start_group: StartGroup | None = None,
        target: Callable[[Collection[str], float], Mapping[str, TopicCut]] = lambda _topics, _election_seconds: {},
    ) -> None:
        """Kafka is not called before `refresh`.

        Args:
            access: to the source.
            choice: of the topics to copy.
            router: of the topics to their targets.
            start_group: the consumer group that new partitions start from; ``None`` for the start of the log.
            target: returns the current extent of target topics, to compare positions with it; takes how long other
                leaders are waited for.
        """
        self._connection, self._choice, self._router = access.connection, choice, router
        self.refresh_seconds, self._timeout_seconds = access.refresh_seconds, access.timeout_seconds
        self._start_group, self._target = start_group, target
        self._stopped, self._is_due = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._periodically = True
        self.view = SourceView()
        """As of the last refresh."""
        self.existing: frozenset[str] = frozenset()
        """All visible topics of the source at the last refresh."""
        self.error: GaplessError | None = None
        """Why the last refresh failed."""
        self._known: dict[str, TopicCut] = {}

    def refresh(self) -> None:
        """Read the topics, their IDs and offsets from the source, and prepare their targets.

        Raises:
            ConfigurationError: at the first refresh, a topic that is selected by name does not exist.
            SourceUnreachableError: Kafka does not answer within the timeout, or denies access.
        """
        leaderless = leaderless_by_topic(self._connection, timeout_seconds=self._timeout_seconds)
        denied = self._denied(leaderless.keys())
        existing = leaderless.keys() | denied
        self.existing = frozenset(existing)
        chosen = self._choice.chosen(existing)
        missing = [topic for topic in chosen if topic not in existing]
        if missing and not self.view.number:
            servers = self._connection.bootstrap_servers
            raise ConfigurationError(
                f"Kafka at {servers} does not have the topic {missing[0]}; correct topics or the address."
            )
        if not self._periodically:
            missing += sorted(self._known.keys() - existing - set(missing))
        described = {topic: leaderless[topic] for topic in chosen if topic in leaderless}
        cuts, problems = self._cuts(described, [topic for topic in chosen if topic in denied])
        routes = self._router.routes(cuts) if cuts else Routes({})
        deleted = tuple(TopicProblem(topic, _DELETED, f"The source topic {topic} was deleted.") for topic in missing)
        copies = self._target(set(routes.targets.values()), self._election_seconds) if routes.targets else {}
        routes = Routes(routes.targets, (*routes.problems, *deleted, *problems), copies)
        group_offsets = self._start_group.offsets(cuts) if self._start_group is not None else None
        self.view = build_view(cuts, routes, number=self.view.number + 1, group_offsets=group_offsets)
        gone = {} if self._periodically else {topic: cut for topic, cut in self._known.items() if topic in missing}
        self._known = gone | {cut.topic: cut for cut in cuts}

    def _denied(self, existing: Collection[str]) -> set[str]:
        """Return topics that are selected by name, or were copied, and that the source denies now.

        Raises:
            SourceUnreachableError: at the first refresh, a topic that is selected by name is denied.
        """
        absent = {*self._choice.chosen(()), *self.view.topics}.difference(existing)
        denied = denied_topics(self._connection, absent, timeout_seconds=self._timeout_seconds)
        if denied and not self.view.number:
            raise DENIED.error(self._connection.bootstrap_servers, f"the topic {min(denied)}")
        return denied

    def _cuts(
        self, topics: Mapping[str, tuple[int, ...]], denied: Sequence[str]
    ) -> tuple[list[TopicCut], list[TopicProblem]]:
        """Return the cuts of the topics, and why some have none.

        A topic that is denied or has a leaderless partition keeps its last cut; without one it is not copied yet.

        Args:
            topics: their leaderless partitions, by name.
            denied: topics that the source denies.
        """
        if not topics and not denied:
            return [], []
        leaderless = {topic: partitions for topic, partitions in topics.items() if partitions}
        led = [topic for topic in topics if topic not in leaderless]
        cuts = self._read(led) if led else []
        cuts += [self._known[topic] for topic in (*leaderless, *denied) if topic in self._known]
        problems = [
            TopicProblem(
                topic,
                _LEADERLESS,
                f"Partition {partitions[0]} of the source topic {topic} has no leader, so copying the topic cannot "
                f"start; start the brokers that hold its replicas, or reassign it.",
            )
            for topic, partitions in leaderless.items()
            if topic not in self._known
        ]
        problems += [
            TopicProblem(
                topic, _DENIED, f"The source denies Describe on the topic {topic}; grant it to the user of the mirror."
            )
            for topic in denied
            if topic not in self._known
        ]
        return sorted(cuts, key=lambda cut: cut.topic), problems

    def _read(self, topics: Sequence[str]) -> list[TopicCut]:
        cut = read_cut(
            self._connection,
            topics,
            timeout_seconds=self._timeout_seconds,
            election_seconds=self._election_seconds,
        )
        return list(cut.topics)

    @property
    def _election_seconds(self) -> float:
        """How long other leaders are waited for: a later refresh is repeated, and has to end soon after `stop`."""
        return 0 if self.view.number else ELECTION_SECONDS

    def begin_with(self, view: SourceView) -> None:
        """Start with the view of another process, instead of a refresh."""
        self.view = view
        self._known = {
            name: TopicCut(
                name,
                topic.first_offsets,
                topic.end_offsets,
                0,
                topic.id,
                high_watermarks=topic.high_watermarks,
                leader_epochs=topic.leader_epochs,
            )
            for name, topic in view.topics.items()
        }

    def start(self, *, periodically: bool = True) -> None:
        """Start the thread that refreshes: also `periodically`, or only when `refresh_soon` asks for it.

        If only then, topics that are deleted meanwhile are problems, and not only those that are selected by name.
        """
        self._periodically = periodically
        self._thread = threading.Thread(target=self._run, name="sources", daemon=True)
        self._thread.start()

    def refresh_soon(self) -> None:
        """Refresh without waiting for the interval."""
        self._is_due.set()

    def stop(self) -> None:
        """Stop the thread, and wait for a running refresh: Kafka's client crashes a process that drops its future."""
        self._stopped.set()
        self._is_due.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        while True:
            interval = self.refresh_seconds if self._periodically else None
            self._is_due.wait(_RETRY_SECONDS if self.error is not None else interval)
            self._stopped.wait(_DEBOUNCE_SECONDS)
            self._is_due.clear()
            if self._stopped.is_set():
                return
            try:
                self.refresh()
                self.error = None
            except GaplessError as error:
                self.error = error
            except Exception as error:  # noqa: BLE001 -- the topics that are known are copied on
                sentence = unexpected_sentence("The topics of the source were not refreshed", error)
                log_unexpected(log, "topics not refreshed", sentence, error)
                self.error = SourceStalledError(f"{sentence} They are refreshed again automatically.")
