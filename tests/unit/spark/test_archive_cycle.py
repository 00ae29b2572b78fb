"""The proof of what a cycle of archiving outlives, and what ends it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.chain import Changes
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.row_buffer import Limits
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from gapless_kafka.access.errors import NO_TOPIC, TopicMissingError
from gapless_kafka.reading.cuts import Cut, TopicCut
from gapless_kafka.topics.topic_choice import TopicChoice
from gapless_spark.archiving.archive import topics as under_test
from gapless_spark.archiving.archive.archiver import Archiver
from gapless_spark.archiving.archive.chains import FencedError, PlanAgainError
from gapless_spark.archiving.archive.planning import Pending
from gapless_spark.archiving.archive.topics import ArchivedTopics, OffsetSnapshot, Target

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PENDING = Pending(topic="t", partition=0, first=0, end=10, log_start=0, high_watermark=10, bytes_per_offset=1.0)
CHAIN: Any = SimpleNamespace(topic_id="i", prefix="r/t/i", epoch=1)
LOOK = OffsetSnapshot("c", {"t": TopicCut("t", (0,), (10,), 0, "i")}, {"t": CHAIN}, {})
DELETED = OffsetSnapshot("c", {}, {}, {})


def archiver(after: OffsetSnapshot, error: Exception) -> Archiver:
    """One whose reader fails, and which finds `after` when it looks again."""

    def fail(*_: object) -> None:
        raise error

    made: Any = Archiver.__new__(Archiver)
    made.topics = SimpleNamespace(take_snapshot=lambda: after)
    made._engine = SimpleNamespace(write=fail)
    made._target = SimpleNamespace(address=None, access=None)
    made._layout, made._codec = "gapless", "zstd"
    made.thresholds = SimpleNamespace(of=lambda _: SimpleNamespace(limits=Limits(1, 1)))
    return made


def test_a_topic_that_is_deleted_while_it_is_read_does_not_end_the_program() -> None:
    error = NO_TOPIC.error("k:9092", "the topic t")
    with pytest.raises(PlanAgainError) as ended:
        archiver(DELETED, error).cycle(LOOK, [PENDING], SimpleNamespace())  # type: ignore[arg-type]
    assert ended.value.__cause__ is error


def test_another_wrong_setting_does() -> None:
    error = ConfigurationError("The object cannot be written; correct what the credentials may do.")
    with pytest.raises(ConfigurationError) as ended:
        archiver(LOOK, error).cycle(LOOK, [PENDING], SimpleNamespace())  # type: ignore[arg-type]
    assert ended.value is error


def topics(folder: Path, choice: TopicChoice = TopicChoice(("t",))) -> ArchivedTopics:  # noqa: B008 -- it is frozen
    place = open_place(parse_place(str(folder)), S3Access())
    settings: Any = SimpleNamespace(allowed_topics=None, layout="gapless", hold=None, once=False)
    target = Target(place=place, address=parse_place(str(folder)), access=S3Access(), region="r")
    nothing: Any = None
    return ArchivedTopics(settings, nothing, choice, target, timeout_seconds=1)


def test_who_does_not_know_whether_a_commit_was_made_takes_nothing_back(tmp_path: Path) -> None:
    topic = TopicCut("t", (0,), (10,), 0, ID)
    earlier, later = topics(tmp_path), topics(tmp_path)
    chain = earlier._chain_of(topic)
    earlier.mark_stale("t")
    assert earlier._chain_of(topic) is chain, "nobody else archives"
    later._chain_of(topic)
    earlier.mark_stale("t")
    with pytest.raises(FencedError, match="has started to archive"):
        earlier._chain_of(topic)


def test_what_was_committed_although_the_answer_was_lost_is_known_afterwards(tmp_path: Path) -> None:
    topic = TopicCut("t", (0,), (10,), 0, ID)
    ours = topics(tmp_path)
    chain = ours._chain_of(topic)
    segment = SegmentBuilder(0, 0).build("", 0, 10, Origin(log_start=0, high_watermark=10, epoch=1))
    behind: Any = chain._chain
    behind.commit(behind.load(), Changes(action="archive", epoch=chain.epoch, added=(segment,)))
    assert chain.state.head(0) is None
    ours.mark_stale("t")
    assert ours._chain_of(topic).state.head(0) == 10


def test_a_named_topic_that_is_deleted_is_passed_over_for_as_long_as_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ["t", "u"]

    def read_cut(_: object, names: list[str], **__: object) -> Cut:
        if not set(names) <= set(there):
            raise TopicMissingError("Kafka does not have the topic t.")
        return Cut("c", tuple(TopicCut(name, (0,), (10,), 0, ID, high_watermarks=(10,)) for name in names))

    monkeypatch.setattr(under_test, "read_cut", read_cut)
    monkeypatch.setattr(under_test, "existing_topics", lambda *_, **__: there)
    monkeypatch.setattr(under_test, "topic_configurations", lambda _, names, **__: dict.fromkeys(names))
    ours = topics(tmp_path, TopicChoice(("t", "u")))
    ours.find_topics()
    assert set(ours.take_snapshot().topics) == {"t", "u"}
    there.remove("t")
    for _ in range(3):
        ours.find_topics()
        assert set(ours.take_snapshot().topics) == {"u"}
    there.append("t")
    ours.find_topics()
    assert set(ours.take_snapshot().topics) == {"t", "u"}
    never = topics(tmp_path, TopicChoice(("u", "typo")))
    never.find_topics()
    with pytest.raises(TopicMissingError):
        never.take_snapshot()
