"""Histories of a mirror: whatever happens to both topics, each record is in the target once, pending, or lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from state.histories import HISTORIES, try_histories
from state.mirror_machine import MirrorMachine

if TYPE_CHECKING:
    from state.mirror_site import MirrorSite

pytestmark = pytest.mark.integration


@pytest.mark.timeout(0 if HISTORIES else 900)
def test_every_history_of_a_mirror_keeps_each_record_and_every_claim_is_true(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    class Mirror(MirrorMachine):
        create = staticmethod(mirror_site)
        most_cuts = 1 if HISTORIES else 0
        may_use_spark = bool(HISTORIES)

    try_histories(Mirror, few=5)
