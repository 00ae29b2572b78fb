"""Histories of an archive that showed a defect, or that random ones reach rarely; each is a sequence of the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from state.archive_site import ArchiveSite

pytestmark = pytest.mark.integration


def test_a_generation_that_was_archived_with_a_clock_behind_is_restored_as_the_newest(
    archive_site: Callable[..., ArchiveSite],
) -> None:
    site = archive_site(1)
    site.produce(0, 3)
    site.archive()
    site.restore()
    site.recreate_source()
    site.produce(0, 2)
    site.jump(-3600)
    site.archive()
    site.delete_copy()
    site.restore()
    site.expire_copy()
    site.restore()


def test_of_a_newest_generation_without_records_nothing_is_restored_to_the_copy_of_the_older_one(
    archive_site: Callable[..., ArchiveSite],
) -> None:
    site = archive_site(1)
    site.produce(0, 2)
    site.archive()
    site.jump(-3600)
    site.restore()
    site.recreate_source()
    site.archive()
    site.restore()


def test_a_generation_is_restored_once_behind_an_older_one(archive_site: Callable[..., ArchiveSite]) -> None:
    site = archive_site(2)
    site.produce(0, 2)
    site.archive()
    site.restore()
    site.recreate_source()
    site.transact(4, commit=True)
    site.produce(1, 1)
    site.archive()
    site.restore()
    site.restore()


def test_what_expires_in_a_partition_that_was_empty_when_archiving_began_is_lost(
    archive_site: Callable[..., ArchiveSite],
) -> None:
    site = archive_site(2)
    site.produce(0, 2)
    site.archive()
    site.produce(1, 4)
    site.expire(1, 0.5)
    site.archive()
    site.restore()
    site.add_partition()
    site.produce(2, 3)
    site.expire(2, 1.0)
    site.produce(2, 1)
    site.archive()
    site.restore()


def test_what_expires_in_a_recreated_topic_before_it_is_archived_is_lost(
    archive_site: Callable[..., ArchiveSite],
) -> None:
    site = archive_site(1)
    site.produce(0, 2)
    site.archive()
    site.recreate_source()
    site.produce(0, 4)
    site.expire(0, 0.5)
    site.archive()
    site.restore()
