"""Owns the proof of what a cycle of archiving outlives, and what ends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_archive.segments.level_zero import Limits
from gapless_kafka.access.errors import NO_TOPIC
from gapless_kafka.reading.cuts import TopicCut
from gapless_spark.archiving.archive.archiver import Archiver
from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import Pending
from gapless_spark.archiving.archive.topics import Look

PENDING = Pending(topic="t", partition=0, first=0, end=10, log_start=0, high_watermark=10, bytes_per_offset=1.0)
CHAIN: Any = SimpleNamespace(topic_id="i", prefix="r/t/i", epoch=1)
LOOK = Look("c", {"t": TopicCut("t", (0,), (10,), 0, "i")}, {"t": CHAIN}, {})
DELETED = Look("c", {}, {}, {})


def archiver(after: Look, error: Exception) -> Archiver:
    """One whose reader fails, and which finds `after` when it looks again."""

    def fail(*_: object) -> None:
        raise error

    made: Any = Archiver.__new__(Archiver)
    made.topics = SimpleNamespace(look=lambda: after)
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
