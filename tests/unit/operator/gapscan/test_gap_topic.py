"""A gaps topic whose records expire: what no record covers is unknown, in conditions, totals and ages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless_operator.shell.metrics import _oldest_gap_seconds

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NOTHING: Gaps = {("transfer", 0): []}
LOSES = {"cleanup_policy": "delete"}


def again(night: Any, gaps: Gaps, *, still_open: int = 0, unknown: int = 0, **report: Any) -> None:
    """The next scan finds `gaps`; of what the bundle before listed it says what the other numbers say."""
    night.later(minutes=1)
    night.step()
    before = night.status["bundle"]
    listed = before["missing"]
    found = {
        "with": {"id": "older", "sha256": before["sha256"]},
        "listed": listed,
        "closed": listed - still_open - unknown,
        "filled": 0,
        "unavailable": 0,
        "open": still_open,
        "unknown": unknown,
        "new": 0,
    }
    night.answer(gaps, reconciliation=found, **report)


def scanned(cluster: Make, gaps: Gaps, **report: Any) -> Any:
    night = cluster(schedule={"cron": "* * * * *"})
    night.later(minutes=1)
    night.step()
    night.answer(gaps, **report)
    return night


@pytest.mark.parametrize(
    ("report", "said", "shown", "fragment"),
    [
        ({}, ("True", "Compacted"), "compact", "is compact."),
        (LOSES, ("False", "NotCompacted"), "delete", "of topic gaps is delete and not compact"),
        ({"cleanup_policy": "compact,delete"}, ("False", "NotCompacted"), "compact,delete", "set it to compact"),
        ({"cleanup_policy": "unknown"}, ("Unknown", "PolicyUnknown"), "unknown", "allow DescribeConfigs"),
    ],
)
def test_condition_and_status_say_whether_the_topic_is_compacted(  # noqa: PLR0917
    cluster: Make, gaps: Gaps, report: dict[str, Any], said: tuple[str, str], shown: str, fragment: str
) -> None:
    night = scanned(cluster, gaps, **report)
    assert night.condition("GapTopicCompacted") == said
    assert fragment in night.message("GapTopicCompacted")
    assert night.status["gapTopicCleanupPolicy"] == shown
    warnings = [event.reason for event in night.events if event.type == "Warning"]
    assert warnings == ([] if said[0] == "True" else [said[1]])
    again(night, gaps, still_open=7, **report)
    assert [event.reason for event in night.events if event.reason == said[1]] == warnings, "told once"


def test_a_gap_whose_record_expired_is_never_said_to_have_closed(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **LOSES)
    since = night.status["oldestGapSince"]
    for listed, policy in ((7, LOSES), (0, LOSES), (0, {})):
        again(night, NOTHING, unknown=listed, **policy)
        reason = "NotCompacted" if policy else "NotAllLookedAt"
        assert night.condition("GapsClosed") == ("Unknown", reason)
        assert "For 7 events of earlier bundles, no record shows any longer" in night.message("GapsClosed")
        assert (night.status["closedEventsTotal"], night.status["unverifiedEvents"]) == (0, 7)
        assert night.status["oldestGapSince"] == since
        assert _oldest_gap_seconds(night.status, 4e9) > 0, "the alert goes on"


def test_unverifiable_events_are_reported_with_advice(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, NOTHING, **LOSES)
    again(night, gaps, **LOSES)
    remedy = night.message("GapTopicCompacted")
    assert night.message("GapsClosed") == f"No record shows any longer whether they arrived. {remedy}"
    again(night, NOTHING, unknown=7, **LOSES)
    unverified = "For 7 events of earlier bundles, no record shows any longer whether they arrived."
    assert night.message("GapsClosed") == f"{unverified} {remedy}"
    again(night, NOTHING)
    audit = "Run an audit (source.events) to find out what has arrived."
    assert night.message("GapsClosed") == f"{unverified} {audit}"


def test_what_records_say_has_closed_counts_and_what_expired_is_remembered(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **LOSES)
    since = night.status["oldestGapSince"]
    again(night, {("transfer", 0): [(0, 1)]}, still_open=2, unknown=3, **LOSES)
    assert night.condition("GapsClosed") == ("False", "StillMissing")
    again(night, NOTHING, **LOSES)
    assert night.condition("GapsClosed") == ("Unknown", "NotCompacted")
    assert (night.status["closedEventsTotal"], night.status["unverifiedEvents"]) == (4, 3)
    assert night.status["oldestGapSince"] == since


def test_records_that_say_that_all_has_closed_are_believed_in_any_topic(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **LOSES)
    again(night, NOTHING, **LOSES)
    assert night.condition("GapsClosed") == ("True", "AllClosed")
    assert (night.status["closedEventsTotal"], night.status["unverifiedEvents"]) == (7, 0)
    assert "oldestGapSince" not in night.status
    again(night, NOTHING, **LOSES)
    assert night.condition("GapsClosed") == ("Unknown", "NotCompacted"), (
        "an empty bundle of such a topic proves nothing"
    )


def test_an_audit_resolves_unverifiable_events(cluster: Make, gaps: Gaps) -> None:
    night = scanned(cluster, gaps, **LOSES)
    again(night, NOTHING, unknown=7, **LOSES)
    night.change(source={"events": {"topics": ["transfer"]}})
    night.later(minutes=1)
    night.step()
    night.answer(NOTHING, command="audit", cleanup_policy=None)
    assert night.condition("GapTopicCompacted") == ("Unknown", "NotAGapTopic")
    assert not {"gapTopicCleanupPolicy", "unverifiedEvents", "oldestGapSince"} & set(night.status)
