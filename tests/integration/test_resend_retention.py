"""The plan of a resend says until when Kafka keeps what would be sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gapless_api.wire.resend_plan import RESEND_PLAN, Retention, retention_text

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.story.resending import Resend

FIRST_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
CENTURY_MS = 100 * 365 * 24 * 3600 * 1000
BY_SIZE = {"retention_bytes": str(1 << 40)}


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"retention_ms": str(CENTURY_MS)}, Retention.BY_TIME),
        ({"retention_ms": "-1"}, Retention.UNLIMITED),
        ({"retention_ms": "-1", **BY_SIZE}, Retention.BY_SIZE),
        ({"retention_ms": str(CENTURY_MS), **BY_SIZE}, Retention.BY_SIZE),
        ({"retention_ms": str(CENTURY_MS), "cleanup_policy": "compact"}, Retention.UNLIMITED),
    ],
)
def test_the_plan_says_when_retention_may_delete_the_first_event(
    configuration: dict[str, str], expected: Retention, kafka: KafkaBroker, topic: TopicFactory, resend: Resend
) -> None:
    name = topic(2, **configuration)
    for partition, timestamps in enumerate(([9, 7, 5], [8, 6])):
        kafka.produce(
            name,
            [b"value"] * len(timestamps),
            partition=partition,
            keys=[b"key"] * len(timestamps),
            timestamps=[FIRST_MS + each for each in timestamps],
        )
    found = resend.run(resendFileName=resend.bundle({(name, 0): [[1, 2]], (name, 1): [[0]]}), plan=True).report
    plan = RESEND_PLAN.from_json(found)
    ages = configuration["retention_ms"] != "-1" and "cleanup_policy" not in configuration
    assert [each.first_event_ms for each in plan.partitions] == [FIRST_MS + 7, FIRST_MS + 8]
    assert [each.expires_from_ms for each in plan.partitions] == (
        [FIRST_MS + 7 + CENTURY_MS, FIRST_MS + 8 + CENTURY_MS] if ages else [None, None]
    )
    assert plan.first_event_ms == FIRST_MS + 7
    assert plan.expires_from_ms == (FIRST_MS + 7 + CENTURY_MS if ages else None)
    assert {each.retention for each in plan.partitions} == {plan.retention} == {expected}
    assert ("2125-12-08T00:00:00Z" in retention_text(plan)) == ages


def test_what_kafka_no_longer_has_or_is_outside_the_time_range_is_not_the_first(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend
) -> None:
    name = topic(retention_ms=str(CENTURY_MS))
    kafka.produce(name, [b"value"] * 5, timestamps=[FIRST_MS + each for each in range(5)])
    kafka.delete_records(name, 0, 2)
    chosen = {"topic": name, "partition": 0, "offsetFrom": 0, "plan": True}
    for more, first in (({}, 2), ({"from_": "2026-01-01T00:00:00.003Z"}, 3)):
        plan = RESEND_PLAN.from_json(resend.run(**chosen, **more).report)
        assert plan.first_event_ms == FIRST_MS + first
    gone = RESEND_PLAN.from_json(resend.run(**chosen, offsetTo=1).report)
    assert (gone.from_kafka, gone.first_event_ms, gone.retention) == (0, None, Retention.UNLIMITED)
