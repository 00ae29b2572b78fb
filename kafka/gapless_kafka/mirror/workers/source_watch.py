"""Owns what a process knows of the source: all topics that are copied, looked at again and again beside the work."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_kafka.access.errors import DENIED
from gapless_kafka.mirror.lanes.sources import Routes, SourceView, TopicProblem, build_view
from gapless_kafka.mirror.watch.looking import END_SECONDS
from gapless_kafka.reading.cuts import TopicCut
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.leaderless import denied_topics, leaderless_by_topic
from gapless_kafka.topics.topic_ids import topic_id_in, topic_id_query

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.groups.start_group import StartGroup
    from gapless_kafka.mirror.lanes.sources import Router
    from gapless_kafka.mirror.watch.heartbeat_route import Choice
    from gapless_kafka.topics.topic_ids import Answer

_AGAIN_SECONDS = 5.0
"""After a failure."""
_AT_ONCE_SECONDS = 0.5
"""Signs that something has changed come in swarms."""
_LOOKS_PER_OFFSETS = 4
"""Of how many looks one looks up the offsets of all topics, and not only of those that are new, recreated or grown."""
_LOST, _LEADERLESS, _DENIED = "TopicRecreated", "LeaderMissing", "AuthorizationFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccess:
    """How the source is reached."""

    connection: KafkaConnection
    refresh_seconds: float
    """From one look to the next."""
    timeout_seconds: float
    """How long an answer may take."""


class SourceWatch:
    """The topics of the source. `refresh` once, then `start`, and `stop` at the end."""

    def __init__(
        self, access: SourceAccess, choice: Choice, router: Router, *, former: StartGroup | None = None
    ) -> None:
        """Nothing is looked at yet.

        Args:
            access: to the source.
            choice: which topics are copied.
            router: where they go.
            former: whose work the mirror continues; ``None`` for nobody's.
        """
        self._connection, self._choice, self._router = access.connection, choice, router
        self._refresh_seconds, self._timeout_seconds = access.refresh_seconds, access.timeout_seconds
        self._former = former
        self._stopped, self._is_due = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.view = SourceView()
        """As it was at the last refresh."""
        self.error: GaplessError | None = None
        """Of the last refresh, which is repeated soon."""
        self._known: dict[str, TopicCut] = {}
        self._describe: Callable[[str], Answer] | None = None
        self._offsets_in = 0
        """After how many further looks the offsets of all topics are looked up again."""

    def refresh(self) -> None:
        """Look at the source.

        Raises:
            ConfigurationError: a topic that is chosen by its name does not exist, at the first refresh.
                SourceUnreachableError: Kafka does not answer within the time, or refuses us; or it denies such a topic.
        """
        leaderless = leaderless_by_topic(self._connection, timeout_seconds=self._timeout_seconds)
        denied = self._denied(leaderless.keys())
        existing = leaderless.keys() | denied
        chosen = self._choice.chosen(existing)
        missing = [topic for topic in chosen if topic not in existing]
        if missing and not self.view.number:
            servers = self._connection.bootstrap_servers
            raise ConfigurationError(
                f"Kafka at {servers} does not have the topic {missing[0]}; correct topics or the address."
            )
        shown = {topic: leaderless[topic] for topic in chosen if topic in leaderless}
        cuts, problems = self._cuts(shown, [topic for topic in chosen if topic in denied])
        routes = self._router.routes(cuts) if cuts else Routes({})
        deleted = tuple(TopicProblem(topic, _LOST, f"The source topic {topic} was deleted.") for topic in missing)
        routes = Routes(routes.targets, (*routes.problems, *deleted, *problems))
        group_offsets = self._start_group.offsets(cuts) if self._start_group is not None else None
        self.view = build_view(cuts, routes, number=self.view.number + 1, group_offsets=group_offsets)
        self._known = {cut.topic: cut for cut in cuts}

    def _denied(self, existing: Collection[str]) -> set[str]:
        """Topics that are named, or were copied, and that the source denies now.

        Raises:
            SourceUnreachableError: a topic is denied that is chosen by its name, at the first refresh.
        """
        gone = {*self._choice.chosen(()), *self.view.topics}.difference(existing)
        found = denied_topics(self._connection, gone, timeout_seconds=self._timeout_seconds)
        if found and not self.view.number:
            raise DENIED.error(self._connection.bootstrap_servers, f"the topic {min(found)}")
        return found

    def _cuts(
        self, topics: Mapping[str, tuple[int, ...]], denied: Sequence[str]
    ) -> tuple[list[TopicCut], list[TopicProblem]]:
        """How far topics reach, given their partitions without leader, and those that are denied.

        A topic that is denied, or has such a partition, is as it was, or waits if it was never seen.
        """
        if not topics and not denied:
            return [], []
        leaderless = {topic: partitions for topic, partitions in topics.items() if partitions}
        unchanged = self._unchanged([topic for topic in topics if topic not in leaderless])
        led = [topic for topic in topics if topic not in leaderless and topic not in unchanged]
        cuts = list(read_cut(self._connection, led, timeout_seconds=self._timeout_seconds).topics) if led else []
        cuts += [self._known[topic] for topic in (*unchanged, *leaderless, *denied) if topic in self._known]
        problems = [
            TopicProblem(
                topic,
                _LEADERLESS,
                f"Partition {partitions[0]} of the source topic {topic} has no leader, so the topic cannot be taken "
                f"up; start the brokers that hold its replicas, or reassign it.",
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

    def _unchanged(self, topics: Sequence[str]) -> set[str]:
        """The topics whose offsets need not be looked up: they have the same ID and as many partitions as before."""
        self._offsets_in -= 1
        if self._offsets_in < 0:
            self._offsets_in = _LOOKS_PER_OFFSETS - 1
            return set()
        if self._describe is None:
            self._describe = topic_id_query(self._connection)
        answers: dict[str, Any] = {topic: self._describe(topic) for topic in topics if topic in self._known}
        return {topic for topic, answer in answers.items() if _is_as(self._known[topic], answer)}

    def begin_with(self, view: SourceView) -> None:
        """Take over what another process of this host has seen."""
        self.view = view
        self._known = {
            name: TopicCut(name, one.first_offsets, one.end_offsets, 0, one.id, high_watermarks=one.high_watermarks)
            for name, one in view.topics.items()
        }

    def start(self) -> None:
        """Refresh beside the work from now on."""
        self._thread = threading.Thread(target=self._run, name="sources", daemon=True)
        self._thread.start()

    def refresh_soon(self) -> None:
        """Refresh without waiting for the time."""
        self._offsets_in = 0
        self._is_due.set()

    def stop(self) -> None:
        """Refresh no more. A refresh that runs is waited for: Kafka's client ends a process that drops it meanwhile."""
        self._stopped.set()
        self._is_due.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        while True:
            self._is_due.wait(_AGAIN_SECONDS if self.error is not None else self._refresh_seconds)
            self._stopped.wait(_AT_ONCE_SECONDS)
            self._is_due.clear()
            if self._stopped.is_set():
                return
            try:
                self.refresh()
                self.error = None
            except GaplessError as error:
                self.error = error


def _is_as(known: TopicCut, answer: Any) -> bool:
    """Whether a description is of the topic that is known; not when brokers know no topic IDs."""
    return (
        bool(known.id)
        and topic_id_in(answer) == known.id
        and len(answer.result().partitions) == len(known.first_offsets)
    )
