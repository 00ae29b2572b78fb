"""A cause becomes a stall when it has lasted, and a stall begins and ends once."""

from __future__ import annotations

import pytest

from gapless_api.wire.mirror_progress import StallReason
from gapless_mirror.watch.stall import Cause
from gapless_mirror.watch.tracker import Changes, Stall, StallTracker

OPEN, GONE = StallReason.TRANSACTION_OPEN, StallReason.LEADER_MISSING
AFTER, EVERY = 30.0, 5.0


class Looks:
    """Looks at regular times."""

    def __init__(self) -> None:
        self.tracker = StallTracker(AFTER)
        self.now = 100.0

    def look(self, *causes: Cause, after: float = EVERY) -> Changes:
        self.now += after
        return self.tracker.update(causes, now=self.now, wall_clock=self.now + 5000)

    def until_named(self, *causes: Cause, every: float = EVERY) -> float:
        """Seconds from the first look that finds something to the one that names it."""
        begun = self.now + every
        for _ in range(50):
            if self.look(*causes, after=every).begun:
                return self.now - begun
        raise AssertionError(self.tracker.stalls)


def cause(reason: StallReason = OPEN, partition: int | None = 0, instance: int = 7, **more: object) -> Cause:
    given: dict[str, object] = {"topic": "orders", "lane": 1, "is_certain": False}
    return Cause(reason, "It stands.", partition=partition, instance=instance, **(given | more))  # type: ignore[arg-type]


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_a_cause_that_lasts_is_a_stall_within_sixty_seconds_of_its_beginning(looks: Looks) -> None:
    assert looks.until_named(cause()) == AFTER
    assert AFTER + EVERY < 60


def test_what_is_certain_is_a_stall_at_once(looks: Looks) -> None:
    (stall,) = looks.look(cause(is_certain=True)).begun
    assert (stall.reason, stall.topic, stall.partitions, stall.lanes, stall.count) == (OPEN, "orders", (0,), (1,), 1)
    assert stall.since == looks.now + 5000


def test_what_moves_on_is_no_stall(looks: Looks) -> None:
    for instance in range(40):
        assert looks.look(cause(instance=instance)).begun == ()
    assert looks.until_named(cause(instance=39)) == AFTER - EVERY


def test_a_cause_that_was_away_begins_again(looks: Looks) -> None:
    for _ in range(6):
        looks.look(cause())
    looks.look()
    assert looks.until_named(cause()) == AFTER


def test_a_stall_begins_once_and_ends_once(looks: Looks) -> None:
    looks.until_named(cause())
    since = looks.tracker.stalls[0].since
    assert looks.look(cause()) == ((), ())
    assert looks.look() == ((), ())
    (ended,) = looks.look().ended
    assert (ended.reason, ended.since) == (OPEN, since)
    assert looks.tracker.stalls == ()
    assert looks.look() == ((), ())


def test_a_stall_that_is_quiet_for_one_look_has_not_ended(looks: Looks) -> None:
    looks.look(cause(is_certain=True))
    for _ in range(5):
        assert looks.look() == ((), ())
        assert len(looks.tracker.stalls) == 1
        assert looks.look(cause(is_certain=True)) == ((), ())


def test_partitions_of_a_topic_are_one_stall_for_each_reason(looks: Looks) -> None:
    found = [cause(partition=number, is_certain=True) for number in (5, 1, 3)]
    found += [cause(GONE, is_certain=True), cause(partition=2, topic="bills", is_certain=True)]
    begun = looks.look(*found).begun
    assert {(stall.reason, stall.topic, stall.partitions) for stall in begun} == {
        (OPEN, "orders", (1, 3, 5)),
        (GONE, "orders", (0,)),
        (OPEN, "bills", (2,)),
    }
    (big,) = (stall for stall in begun if stall.count == 3)
    assert big.sentence == "It stands. The same applies to 2 other partitions of the topic."
    assert looks.look(*found[1:]) == ((), ())
    assert next(
        stall for stall in looks.tracker.stalls if stall.topic == "orders" and stall.reason is OPEN
    ).partitions == (1, 3)


def test_lanes_are_one_stall_for_each_reason(looks: Looks) -> None:
    found = [cause(partition=None, topic="", lane=lane, is_certain=True) for lane in (4, 2)]
    (stall,) = looks.look(*found).begun
    assert (stall.partitions, stall.lanes, stall.count) == ((), (2, 4), 2)
    assert stall.sentence.endswith("The same applies to 1 other lanes.")
    (cluster,) = looks.look(*found, cause(GONE, partition=None, topic="", lane=None, is_certain=True)).begun
    assert cluster.count == 1


def test_time_in_which_the_program_was_stopped_does_not_count(looks: Looks) -> None:
    looks.look(cause())
    assert looks.look(cause(), after=3600).begun == ()
    assert looks.look(cause(), after=5).begun == ()
    assert len(looks.look(cause(), after=5).begun) == 1


def test_the_longest_stall_comes_first(looks: Looks) -> None:
    first, second = cause(is_certain=True), cause(GONE, is_certain=True)
    looks.look(first)
    looks.look(first, second)
    assert [stall.reason for stall in looks.tracker.stalls] == [OPEN, GONE]
    assert all(isinstance(stall, Stall) for stall in looks.tracker.stalls)
