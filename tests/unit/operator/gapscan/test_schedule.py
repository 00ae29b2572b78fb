"""A schedule is correct across daylight saving, missed times and expressions that never match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_operator.engines.scheduling import suffix_of
from kit.machine.examples import examples

STOCKHOLM = "Europe/Stockholm"


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def times(cron: str, after: str, count: int, zone: str = STOCKHOLM) -> list[str]:
    schedule, moment, found = Schedule.parse(cron, zone), local(after), []
    for _ in range(count):
        following = schedule.next_after(moment)
        assert following is not None
        moment = following
        found.append(moment.astimezone(ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def test_a_time_that_the_clock_jumps_over_comes_right_after_the_jump() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00+01:00", 3) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
        "2026-03-31T02:30+02:00",
    ]


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00+02:00", 3) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
        "2026-10-27T02:30+01:00",
    ]


def test_a_line_for_every_half_hour_follows_real_time_through_the_extra_hour() -> None:
    assert times("*/30 * * * *", "2026-10-25T01:45+02:00", 5) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ]


def test_the_two_passes_of_a_doubled_hour_have_different_minutes() -> None:
    found = [int(suffix_of(local(text))) for text in times("0 * * * *", "2026-10-25T01:30+02:00", 3)]
    assert found[1] - found[0] == found[2] - found[1] == 60


@pytest.mark.parametrize(
    ("after", "now", "latest"),
    [
        ("2026-11-20T00:00+00:00", "2026-11-20T02:29:59+00:00", None),
        ("2026-11-20T00:00+00:00", "2026-11-20T02:30:00+00:00", "2026-11-20T02:30+00:00"),
        ("2026-11-20T02:30+00:00", "2026-11-20T23:59:00+00:00", None),
        ("2026-11-01T02:30+00:00", "2026-11-20T02:29:00+00:00", "2026-11-19T02:30+00:00"),
        ("2016-11-01T02:30+00:00", "2026-11-20T02:29:00+00:00", "2026-11-19T02:30+00:00"),
    ],
)
def test_only_the_latest_of_the_missed_times_is_due(after: str, now: str, latest: str | None) -> None:
    found = Schedule.parse("30 2 * * *", "UTC").latest_until(local(now), after=local(after))
    assert found == (None if latest is None else local(latest))


def test_a_rare_line_is_found_years_back() -> None:
    schedule = Schedule.parse("0 0 29 2 *", "UTC")
    after, now = local("2024-01-01T00:00+00:00"), local("2027-12-01T00:00+00:00")
    assert schedule.latest_until(now, after=after) == local("2024-02-29T00:00+00:00")


@pytest.mark.parametrize(("days", "is_found"), [(2920, True), (2930, False)])
def test_a_time_that_was_missed_eight_years_ago_is_the_oldest_that_is_made_up_for(*, days: int, is_found: bool) -> None:
    schedule = Schedule.parse("0 0 29 2 */7", "UTC")  # a leap day that is a Sunday, which comes every 28 years
    after, missed = local("2031-01-01T00:00+00:00"), local("2032-02-29T00:00+00:00")
    assert schedule.next_after(after) == missed
    assert schedule.latest_until(missed + timedelta(days=days), after=after) == (missed if is_found else None)


@pytest.mark.parametrize("cron", ["", "* * * *", "60 * * * *", "* * * * * *", "@hourly", "a b c d e", "0 0 30 2 *"])
def test_what_is_no_cron_line_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(ScheduleError, match="such as '30 2"):
        Schedule.parse(cron, "UTC")


@pytest.mark.parametrize(
    ("cron", "moment"), [("*/20 * * * * *", "2026-11-20T10:00:40+00:00"), ("* * * * *", "2026-11-20T10:01:00+00:00")]
)
def test_a_field_for_seconds_may_stand_before_the_others_where_that_is_allowed(cron: str, moment: str) -> None:
    schedule = Schedule.parse(cron, "UTC", seconds=True)
    assert schedule.next_after(local("2026-11-20T10:00:20+00:00")) == local(moment)


@pytest.mark.parametrize("cron", ["* * * *", "* * * * * * *", "60 * * * * *"])
def test_what_is_no_cron_line_with_seconds_is_refused_with_its_fields(cron: str) -> None:
    with pytest.raises(ScheduleError, match=r"write second \(optional\), minute, hour, day of month, month and"):
        Schedule.parse(cron, "UTC", seconds=True)


def test_what_is_no_cron_line_is_refused_without_a_field_for_seconds() -> None:
    with pytest.raises(
        ScheduleError, match="is not a cron expression; write minute, hour, day of month, month and day of week"
    ):
        Schedule.parse("* * * * * *", "UTC")


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "../etc/passwd", "Europe"])
def test_what_is_no_time_zone_is_refused_with_an_example(zone: str) -> None:
    with pytest.raises(ScheduleError, match="Europe/Stockholm"):
        Schedule.parse("* * * * *", zone)


@settings(max_examples=examples(150), deadline=None)
@given(
    cron=st.sampled_from(["30 2 * * *", "0 3 * * *", "*/7 * * * *", "5 */2 * * *", "0 2 * * 0", "15 1-3 * * *"]),
    zone=st.sampled_from([STOCKHOLM, "America/New_York", "Australia/Lord_Howe", "UTC"]),
    start=st.integers(0, 250 * 24 * 60).map(
        lambda minutes: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    ),
    hours=st.integers(0, 400),
)
def test_looking_back_agrees_with_going_forward(cron: str, zone: str, start: datetime, hours: int) -> None:
    schedule = Schedule.parse(cron, zone)
    now = start + timedelta(hours=hours)
    latest = schedule.latest_until(now, after=start)
    moment, expected = schedule.next_after(start), None
    while moment is not None and moment <= now:
        expected, moment = moment, schedule.next_after(moment)
    assert latest == expected


def test_a_minute_tells_its_moment() -> None:
    moment = local("2026-11-20T02:30+00:00")
    assert int(suffix_of(moment)) * 60 == moment.timestamp()


def test_a_time_within_a_minute_is_told_with_its_seconds() -> None:
    moment = local("2026-11-20T02:30:07+00:00")
    minutes, seconds = suffix_of(moment).split("-")
    assert (int(minutes) * 60 + 7, seconds) == (moment.timestamp(), "7")
