"""The proof that positions of consumer groups are translated exactly or not at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.allowed_groups import AllowedGroups
from gapless_api.wire.mirror_groups import GROUPS_REPORT, GroupsReport
from gapless_kafka.topics.consumer_groups import GroupCommit
from gapless_kafka.writing.offset_map import OffsetMap, Reach, Run, target_position
from gapless_mirror.groups.choice import GroupChoice
from gapless_mirror.groups.planning import GroupPlan, MirroredPartition, plan_group, unmirrored
from gapless_mirror.lanes.claims import HOLDS, Comparison, PositionState

END = 500


def partition(
    *runs: tuple[int, int, int],
    start: int = 0,
    next_offset: int = 100,
    log_start: int = 0,
    target_start: int = 0,
    recreated: bool = False,
) -> MirroredPartition:
    return MirroredPartition(
        target="x.t",
        start=start,
        next_offset=next_offset,
        log_start=log_start,
        runs=OffsetMap(runs),
        target_start=target_start,
        first_mapped=min((first for first, _, _ in runs), default=None),
        difference=Comparison(PositionState.SOURCE_RECREATED, "The topic was recreated.") if recreated else HOLDS,
    )


def plan(
    offset: int, one: MirroredPartition, *, now: int | None = None, text: str = "text", is_active: bool = False
) -> GroupPlan:
    return plan_group(
        "g",
        {("t", 3): GroupCommit(offset, "text"), ("other", 0): GroupCommit(5)},
        {} if now is None else {("x.t", 3): GroupCommit(now, text)},
        {("t", 3): one},
        is_active=is_active,
        end=lambda topic, number: END if (topic, number) == ("x.t", 3) else -1,
    )


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=30), st.integers(0, 5))
def test_a_group_continues_at_the_same_record(moves: list[tuple[int, int]], beyond: int) -> None:
    pairs, old, new = [], 10, 1000
    for step, other in moves:
        old, new = old + step, new + other
        pairs.append((old, new))
    runs = OffsetMap(Run(first, 1, target) for first, target in pairs)
    reach = Reach(10, old + 1 + beyond)
    for offset in range(10, reach.next_offset + 1):
        later = [target for first, target in pairs if first >= offset]
        expected = later[0] if later else pairs[-1][1] + 1
        assert (reach.holds(offset), target_position(offset, runs, lambda: -1)) == (True, expected)
    assert not reach.holds(9)
    assert not reach.holds(reach.next_offset + 1)


def test_a_position_is_written_where_nothing_forbids_it() -> None:
    assert plan(50, partition((0, 100, 1000))).writes == {("x.t", 3): 1050}
    assert plan(100, partition((0, 100, 1000))).writes == {("x.t", 3): 1100}
    assert plan(100, partition((0, 100, 1000)), now=1099).writes == {("x.t", 3): 1100}
    assert plan(7, partition()).writes == {("x.t", 3): END}


def test_a_position_that_is_there_is_not_written_again() -> None:
    found = plan(50, partition((0, 100, 1000)), now=1050, is_active=True)
    assert (found.writes, found.findings) == ({}, ())
    assert [move.state for move in found.moves] == ["unchanged"]


def test_the_metadata_of_an_offset_is_carried_over() -> None:
    mirrored = partition((0, 100, 1000))
    assert plan(50, mirrored).metadata == {("x.t", 3): "text"}
    assert plan(50, mirrored, now=1050, text="").writes == {("x.t", 3): 1050}
    assert plan(50, mirrored, now=1051, text="").writes == {}


def test_what_a_mirror_has_not_copied_of_a_group_is_listed() -> None:
    found = unmirrored("g", [("t", 0), ("t", 1), ("u", 1), ("u", 0)], {("t", 0), ("z", 0)}, "m")
    assert [(each.topic, each.partition, each.reason, each.is_problem) for each in found] == [
        ("t", 1, "NotMirrored", True),
        ("u", None, "NotMirrored", True),
    ]
    assert found[1].message == "Group g also reads u, which the mirror m has not copied: it was left out."


def test_no_group_goes_backwards() -> None:
    found = plan(50, partition((0, 100, 1000)), now=1051)
    assert (found.writes, found.moves) == ({}, ())
    (finding,) = found.findings
    assert (finding.reason, finding.is_problem) == ("NotBackwards", False)


def test_a_group_with_members_at_the_target_is_left_alone() -> None:
    found = plan(50, partition((0, 100, 1000)), now=3, is_active=True)
    assert (found.writes, [finding.reason for finding in found.findings]) == ({}, ["ActiveMembers"])


@pytest.mark.parametrize(
    ("offset", "one", "reason", "words"),
    [
        (101, partition((0, 100, 1000)), "AheadOfMirror", "copied up to 100"),
        (4, partition((5, 95, 1000), start=5), "BehindMap", "started at 5"),
        (29, partition((30, 70, 1000), log_start=40), "BehindMap", "source log starts at 40"),
        (39, partition(log_start=40), "BehindMap", "source log starts at 40"),
        (50, partition((0, 100, 1000), recreated=True), "TopicRecreated", "recreated"),
        (50, partition((0, 100, 1000), target_start=1051), "ExpiredInTarget", "offset 1,050 of x.t/3 has expired"),
        (50, partition((60, 40, 1000), target_start=1002), "ExpiredInTarget", "that log starts at 1,002"),
    ],
)
def test_what_cannot_be_known_is_named_and_not_guessed(
    offset: int, one: MirroredPartition, reason: str, words: str
) -> None:
    found = plan(offset, one)
    (finding,) = found.findings
    assert (found.writes, finding.reason, finding.is_problem) == ({}, reason, True)
    assert words in finding.message
    assert (finding.topic, finding.partition) == ("t", 3)
    report = GroupsReport(name="m", groups=("g",), moves=found.moves, findings=found.findings)
    assert GROUPS_REPORT.from_json(GROUPS_REPORT.to_json(report)) == report


@pytest.mark.parametrize(
    ("offset", "one", "target"),
    [
        (30, partition((30, 70, 1000), log_start=40), 1000),
        (40, partition((50, 50, 1000), log_start=40), 1000),
        (40, partition(log_start=40), END),
        (5, partition((50, 50, 1000), start=5, log_start=5), 1000),
    ],
)
def test_what_is_left_of_the_map_is_exact(offset: int, one: MirroredPartition, target: int) -> None:
    assert plan(offset, one).writes == {("x.t", 3): target}


@pytest.mark.parametrize(
    ("offset", "one", "target"),
    [
        (50, partition((0, 100, 1000), target_start=1050), 1050),
        (99, partition((0, 99, 1000), target_start=1105), 1105),
        (7, partition(target_start=END + 1), END + 1),
    ],
)
def test_a_group_that_has_read_what_expired_continues_at_the_start_of_the_log(
    offset: int, one: MirroredPartition, target: int
) -> None:
    """A consumer may begin at the end of a log, and miss records, if its offset is before the start."""
    assert plan(offset, one).writes == {("x.t", 3): target}


def test_a_group_that_has_read_on_in_the_target_is_not_told_about_expired_copies() -> None:
    (finding,) = plan(50, partition((0, 100, 1000), target_start=1080), now=1090).findings
    assert (finding.reason, finding.is_problem) == ("NotBackwards", False)


def test_groups_are_chosen_by_name_prefix_and_pattern_and_never_our_own() -> None:
    existing = ["a", "b1", "c", "gapless-mirror-m", "x"]
    assert GroupChoice(("a",), ("b",), re.compile("c|gapless.*")).chosen(existing) == ["a", "b1", "c"]
    assert GroupChoice(("gapless-mirror-m",)).chosen(existing) == ["gapless-mirror-m"]
    assert GroupChoice(("a", "z")).missing(existing) == ["z"]
    limited = GroupChoice(("a",), ("b",), re.compile("c|x|gapless.*"), AllowedGroups(("b*", "x", "gapless*")))
    assert (limited.chosen(existing), limited.not_allowed(existing)) == (["a", "b1", "x"], ["c"])
    assert not GroupChoice()
    assert GroupChoice(pattern=re.compile(".*"))
