"""Which attempt was started last, by the status and the existing attempts, and the names of attempts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_operator.common.observed import Meta
from gapless_operator.engines.engine import GENERATION_ANNOTATION, Attempt, Phase
from gapless_operator.engines.scheduling import latest_attempt

Make = Callable[..., Any]
NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def attempt(name: str, seconds: int, **more: Any) -> Attempt:
    created = NOW + timedelta(seconds=seconds)
    meta = Meta(name=name, namespace="ns", uid=name, created=created, annotations={GENERATION_ANNOTATION: "3"}, **more)
    return Attempt(meta=meta, engine="Job", phase=Phase.RUNNING)


def recorded(name: str, seconds: int | None, **more: Any) -> LastAttempt:
    started = None if seconds is None else NOW + timedelta(seconds=seconds)
    return LastAttempt(name=name, engine="Job", generation=3, started=started, **more)


def test_without_attempts_it_is_the_one_in_the_status() -> None:
    last = recorded("a", 5)
    assert latest_attempt(last, []) == last
    assert latest_attempt(None, []) is None


def test_an_existing_attempt_has_the_start_time_of_the_api_server() -> None:
    last = recorded("a", 5, outcome="GapsFound")
    assert latest_attempt(last, [attempt("a", 7)]) == recorded("a", 7, outcome="GapsFound")


def test_one_that_began_later_than_what_the_status_knows_was_not_recorded_before_a_crash() -> None:
    for last in (None, recorded("a", 5), recorded("gone", 5), recorded("gone", None)):
        assert latest_attempt(last, [attempt("a", 5), attempt("b", 6)]) == recorded("b", 6)


@pytest.mark.parametrize("seconds", [6, 7])
def test_one_that_did_not_begin_later_is_not_the_last(seconds: int) -> None:
    last = recorded("gone", seconds)
    assert latest_attempt(last, [attempt("a", 5), attempt("b", 6)]) == last


def test_one_that_is_being_deleted_is_not_found_again() -> None:
    assert latest_attempt(recorded("a", 5), [attempt("b", 6, deleting=True)]) == recorded("a", 5)


@pytest.mark.parametrize("name", ["9" * 63, "n" * 63])
def test_the_name_of_an_attempt_begins_with_a_letter_and_is_short_enough_for_spark(cluster: Make, name: str) -> None:
    night = cluster(name=name)
    night.step()
    (begun,) = night.begun
    assert begun[0].isalpha()
    assert len(begun) <= 40
    assert begun.endswith("-g1-1")
