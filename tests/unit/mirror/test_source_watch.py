"""The proof of which topics a mirror follows when the source shows less of them than before; without Kafka."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_kafka.topics.topic_choice import TopicChoice
from gapless_mirror.lanes.sources import Routes
from gapless_mirror.workers import source_watch
from gapless_mirror.workers.source_watch import SourceAccess, SourceWatch


class Source:
    """Topics with one partition each, and those that are denied."""

    def __init__(self, *topics: str) -> None:
        self.topics, self.denied, self.leaderless = set(topics), set[str](), set[str]()

    def listed(self, *_: object, **__: object) -> dict[str, tuple[int, ...]]:
        return {topic: (0,) if topic in self.leaderless else () for topic in self.topics - self.denied}

    def refused(self, _connection: object, topics: Collection[str], **_more: object) -> set[str]:
        return self.denied.intersection(topics)

    def cut(self, _connection: object, topics: Sequence[str], **_more: object) -> Cut:
        return Cut("C", tuple(TopicCut(topic, (0,), (9,), 0, topic.upper()) for topic in topics))


class SameNames:
    def routes(self, topics: Sequence[TopicCut]) -> Routes:
        return Routes({cut.topic: cut.topic for cut in topics})


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    found = Source("orders", "log-1")
    monkeypatch.setattr(source_watch, "leaderless_by_topic", found.listed)
    monkeypatch.setattr(source_watch, "denied_topics", found.refused)
    monkeypatch.setattr(source_watch, "read_cut", found.cut)
    return found


def watch() -> SourceWatch:
    kafka = KafkaConnection(bootstrap_servers="source:9092")
    access = SourceAccess(connection=kafka, refresh_seconds=1.0, timeout_seconds=1.0)
    return SourceWatch(access, TopicChoice(names=("orders",), prefixes=("log-",)), SameNames())


def test_topics_that_are_denied_are_followed_as_they_were_and_are_not_called_deleted(source: Source) -> None:
    """The lanes keep them, so that the watch says what is denied, and copying goes on when the right is back."""
    one = watch()
    one.refresh()
    source.denied = {"orders", "log-1"}
    one.refresh()
    assert sorted(one.view.topics) == ["log-1", "orders"]
    assert one.view.problems == ()
    source.denied, source.topics = set(), {"log-2"}
    one.refresh()
    assert sorted(one.view.topics) == ["log-2"]
    assert [(problem.topic, problem.reason) for problem in one.view.problems] == [("orders", "TopicRecreated")]


def test_a_topic_that_is_denied_from_the_beginning_is_refused_with_the_right_that_is_missing(source: Source) -> None:
    source.denied = {"orders"}
    with pytest.raises(SourceUnreachableError, match="denies access to the topic orders; grant this user"):
        watch().refresh()


def test_a_process_that_begins_with_the_view_of_another_one_knows_its_topics(source: Source) -> None:
    first, second = watch(), watch()
    first.refresh()
    source.leaderless, source.denied = {"orders"}, {"log-1"}
    second.begin_with(first.view)
    second.refresh()
    assert sorted(second.view.topics) == ["log-1", "orders"]
    assert second.view.problems == ()
