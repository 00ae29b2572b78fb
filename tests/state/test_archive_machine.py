"""Histories of an archive: each record that was archived is stored once and restored once, and every claim is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from state.archive_machine import ArchiveMachine
from state.histories import HISTORIES, try_histories

if TYPE_CHECKING:
    from state.archive_site import ArchiveSite

pytestmark = pytest.mark.integration


@pytest.mark.timeout(0 if HISTORIES else 900)
def test_every_history_of_an_archive_keeps_each_record_and_every_claim_is_true(
    archive_site: Callable[..., ArchiveSite],
) -> None:
    class Archive(ArchiveMachine):
        create = staticmethod(archive_site)
        most_cuts = 1 if HISTORIES else 0

    try_histories(Archive, few=5)
