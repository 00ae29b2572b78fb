"""Histories of a mirror that showed a defect, or that random ones reach rarely; each is a sequence of the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from state.mirror_claims import COMMANDS, check_claim

if TYPE_CHECKING:
    from state.mirror_site import MirrorSite

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("grown", [2, 9])
def test_a_source_that_was_cut_and_has_grown_again_is_copied_from_the_cut(
    mirror_site: Callable[..., MirrorSite], grown: int
) -> None:
    """Also where it still ends before the position: its records from the cut on are others."""
    site = mirror_site(1)
    site.produce(0, 4)
    site.produce(0, 4)
    site.mirror()
    site.cut_source(0, 1)
    site.produce(0, grown)
    site.mirror()


@pytest.mark.parametrize("grown", [0, 2, 9])
def test_records_that_a_source_loses_before_a_killed_mirror_has_copied_them_are_a_loss(
    mirror_site: Callable[..., MirrorSite], grown: int
) -> None:
    """The position holds the end that the log had, so a cut after the position is known, too."""
    site = mirror_site(1)
    site.produce(0, 4)
    site.produce(0, 4)
    site.kill_mirror(1)
    site.cut_source(0, 1)
    if grown:
        site.produce(0, grown)
    site.check()
    site.mirror()


@pytest.mark.parametrize("decision", [0, 1])
def test_a_control_topic_that_has_lost_its_last_positions_copies_nothing_twice(
    mirror_site: Callable[..., MirrorSite], decision: int
) -> None:
    """Twice only if that is what was decided."""
    site = mirror_site(2)
    site.produce(0, 4)
    site.produce(1, 2)
    site.mirror()
    site.produce(0, 4)
    site.mirror()
    site.produce(0, 2)
    site.produce(1, 2)
    site.cut_control(0)
    site.check()
    site.mirror(decision)
    site.produce(0, 1)
    site.mirror()


def test_records_that_no_mirror_has_seen_are_not_missed(mirror_site: Callable[..., MirrorSite]) -> None:
    site = mirror_site(1)
    site.produce(0, 4)
    site.mirror()
    site.produce(0, 4)
    site.cut_source(0, 1)
    site.check()
    site.produce(0, 2)
    site.mirror()


def test_what_is_said_beside_a_mirror_is_true_before_and_after_a_loss(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(1)
    site.produce(0, 4)
    site.mirror()
    site.transact(3, commit=True)
    for step in (site.mirror, site.recreate_source, lambda: site.produce(0, 2), site.mirror):
        step()
        for command in COMMANDS:
            check_claim(site, command)


def test_a_target_with_other_records_is_reported_although_its_source_was_recreated(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(1)
    site.produce(0, 3)
    site.mirror()
    site.recreate_source()
    site.cut_target(0, 0, 9)
    site.check()
    site.mirror()
    site.produce(0, 2)
    site.mirror()


def test_a_partition_without_copies_needs_its_own_decision_beside_that_about_a_deleted_target(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(2)
    site.produce(0, 1)
    site.mirror()
    site.recreate_source()
    site.produce(1, 1)
    site.delete_target(recreate=False)
    site.mirror()


def test_a_target_that_was_emptied_under_an_empty_source_is_not_lost_again(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(1)
    site.produce(0, 1)
    site.mirror()
    site.recreate_source()
    site.cut_target(0, 0, 0)
    site.mirror()


def test_copying_again_begins_with_the_source_as_it_is_although_it_was_truncated(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(1)
    site.produce(0, 4)
    site.mirror()
    site.cut_source(0, 0)
    site.produce(0, 3)
    site.delete_target(recreate=True)
    site.mirror()


def test_a_group_is_not_set_to_a_copy_that_has_expired(mirror_site: Callable[..., MirrorSite]) -> None:
    site = mirror_site(1)
    site.produce(0, 3)
    site.mirror()
    site.produce(0, 1)
    site.expire_target(0)
    check_claim(site, "groups", 0.0)


def test_a_partition_that_waits_for_a_decision_does_not_hold_up_the_others_of_its_topic(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    """Its position is of the topic before; every commit of the lane was discarded because that topic is gone."""
    site = mirror_site(2)
    site.produce(0, 1)
    site.mirror()
    site.delete_target(recreate=True)
    site.add_partition()
    site.mirror(1)
    site.recreate_source()
    site.produce(0, 2)
    site.delete_target(recreate=False)
    site.mirror()
