"""Until when Kafka keeps what a plan selects."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gapless_api.wire.resend_plan import ResendPlan, Retention, moment_of_ms, oldest_text, retention_text
from gapless_kafka.topics.topic_configuration import TopicConfiguration
from gapless_sender.workers.estimate import retention_of
from kit.story.messages import resend_plan

DAY_MS = 86_400_000


def configuration(seconds: float | None = None, size: int | None = None) -> TopicConfiguration:
    return TopicConfiguration({}, seconds, size, None)


@pytest.mark.parametrize(
    ("found", "first_ms", "expected"),
    [
        (configuration(86400.0), 5, (DAY_MS + 5, Retention.BY_TIME)),
        (configuration(0.0), 5, (5, Retention.BY_TIME)),
        (configuration(86400.0, 0), 5, (DAY_MS + 5, Retention.BY_SIZE)),
        (configuration(None, 10), None, (None, Retention.BY_SIZE)),
        (configuration(), None, (None, Retention.UNLIMITED)),
        (configuration(86400.0), None, (None, Retention.UNKNOWN)),
        (configuration(86400.0, 10), None, (None, Retention.UNKNOWN)),
        (None, 5, (None, Retention.UNKNOWN)),
    ],
)
def test_what_cannot_be_read_is_unknown_and_not_unlimited(
    found: TopicConfiguration | None, first_ms: int | None, expected: tuple[int | None, Retention]
) -> None:
    assert retention_of(found, first_ms) == expected


@pytest.mark.parametrize(
    ("retention", "expires_ms", "text"),
    [
        (Retention.UNLIMITED, None, "Kafka's retention deletes none of those that Kafka has."),
        (Retention.BY_TIME, DAY_MS, "Kafka's retention may delete the first of them from 1970-01-02T00:00:00Z on."),
        (Retention.BY_SIZE, None, "Kafka's retention may delete the first of them by size at any time."),
        (
            Retention.BY_SIZE,
            DAY_MS,
            (
                "Kafka's retention may delete the first of them by size at any time, and by age from "
                "1970-01-02T00:00:00Z on."
            ),
        ),
        (Retention.UNKNOWN, None, "How long Kafka keeps some of them is not known."),
        (
            Retention.UNKNOWN,
            DAY_MS,
            (
                "How long Kafka keeps some of them is not known; of the others, it may delete the first from "
                "1970-01-02T00:00:00Z on."
            ),
        ),
    ],
)
def test_one_sentence_says_until_when_kafka_keeps_them(retention: Retention, expires_ms: int | None, text: str) -> None:
    assert retention_text(plan(retention, expires_ms)) == text


def test_on_a_terminal_it_says_how_long_that_is() -> None:
    by_time = plan(Retention.BY_TIME, DAY_MS)
    expires = datetime(1970, 1, 2, tzinfo=UTC)
    assert retention_text(by_time, now=expires - timedelta(hours=5)).endswith("from 1970-01-02T00:00:00Z on, in 5 h.")
    assert retention_text(by_time, now=expires).endswith("delete the first of them now, since 1970-01-02T00:00:00Z.")


def test_a_timestamp_beyond_the_calendar_is_its_end() -> None:
    assert moment_of_ms((1 << 63) - 1) == datetime.max.replace(tzinfo=UTC)
    assert retention_text(plan(Retention.BY_TIME, 1 << 70), now=datetime.now(UTC)).endswith(" d.")


def plan(retention: Retention, expires_ms: int | None) -> ResendPlan:
    return replace(resend_plan(5), retention=retention, expires_from_ms=expires_ms)


def test_the_oldest_event_says_since_when_something_is_missing() -> None:
    known = replace(resend_plan(5), first_event_ms=86_400_000)
    assert oldest_text(known) == "The oldest of them in Kafka is of 1970-01-02T00:00:00Z."
    later = datetime(1970, 1, 10, tzinfo=UTC)
    assert oldest_text(known, now=later) == "The oldest of them in Kafka is of 1970-01-02T00:00:00Z, 8 d old."
    ahead = datetime(1970, 1, 1, tzinfo=UTC)  # the clock of a producer
    assert oldest_text(known, now=ahead) == oldest_text(known)
    assert oldest_text(replace(known, first_event_ms=None)) == ""
