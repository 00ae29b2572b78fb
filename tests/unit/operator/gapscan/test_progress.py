"""The status of a GapScan has the progress of its running attempt, written every few seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.wire.reading_progress import READING_LINE, ReadingLine

Make = Callable[..., Any]


def line(read: int, **more: Any) -> str:
    message = ReadingLine(
        time="2026-11-20T10:00:02.000+00:00",
        command="scan",
        offsets=more.get("offsets", 1000),
        read=read,
        percent=read / 10,
        offsets_per_second=50.0,
        eta_seconds=more.get("eta_seconds", 7.5),
    )
    return READING_LINE.to_line(message) + "\n"


def says(night: Any, *lines: str) -> None:
    night.logs[f"{night.begun[-1]}-pod"] = "starting\n" + "".join(lines)


@pytest.fixture(params=[False, True], ids=["job", "spark-application"])
def night(cluster: Make, request: pytest.FixtureRequest) -> Any:
    made = cluster(spark_operator=request.param)
    made.step()
    made.run()
    made.settle()
    return made


def test_a_scan_without_progress_messages_has_no_progress(night: Any) -> None:
    assert "progress" not in night.status


def test_how_far_a_scan_has_read_is_written_at_most_every_five_seconds(night: Any) -> None:
    says(night, line(100), line(250))
    plan = night.step()
    assert night.status["progress"] == {
        "attempt": night.begun[-1],
        "offsets": 1000,
        "read": 250,
        "percent": 25,
        "offsetsPerSecond": 50.0,
        "etaSeconds": 7.5,
        "updatedAt": "2026-11-20T10:00:00Z",
    }
    assert plan.requeue_after_seconds <= 6, "it is looked at again"
    says(night, line(300))
    night.later(seconds=4)
    assert night.step().status is None
    night.later(seconds=1)
    night.step()
    assert (night.status["progress"]["read"], night.status["progress"]["updatedAt"]) == (300, "2026-11-20T10:00:05Z")
    night.later(seconds=5)
    assert night.step().status is None, "nothing new was read"


def test_an_unreadable_message_changes_nothing(night: Any) -> None:
    says(night, line(250))
    night.step()
    night.later(seconds=6)
    says(night, json.dumps({**json.loads(line(900)), "gaplessReading": 99}) + "\n")
    assert night.step().status is None
    assert night.status["progress"]["read"] == 250


def test_progress_is_removed_when_the_scan_has_ended(night: Any) -> None:
    says(night, line(1000))
    night.step()
    night.end(night.log_of({("t", 0): [(1, 2)]}))
    night.settle()
    assert "progress" not in night.status
    assert night.status["missingEvents"] == 2
    night.change(limit="First")
    night.step()
    night.run()
    night.settle()
    assert len(night.begun) == 2
    assert "progress" not in night.status


@pytest.mark.parametrize(("read", "offsets", "percent"), [(995, 1000, 99), (1100, 1000, 100), (0, 0, 100)])
def test_a_percentage_is_cut_to_a_whole_one_and_to_a_hundred(night: Any, read: int, offsets: int, percent: int) -> None:
    says(night, line(read, offsets=offsets))
    night.step()
    assert night.status["progress"]["percent"] == percent


def test_an_attempt_begins_without_the_progress_of_another(cluster: Make) -> None:
    night = cluster()
    night.body["status"] = {"progress": {"attempt": "another", "offsets": 1000, "read": 10, "percent": 1}}
    night.step()
    assert night.begun
    assert "progress" not in night.status


def test_numbers_that_do_not_fit_into_a_status_are_limited(night: Any) -> None:
    says(night, line(2**65, offsets=2**66))
    night.step()
    assert night.status["progress"]["offsets"] == night.status["progress"]["read"] == 2**63 - 1
    assert night.status["progress"]["percent"] == 100
