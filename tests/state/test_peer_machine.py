"""Histories of an archive that kafka-replicator writes, too: every reader reads the records of both once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from state.histories import HISTORIES, try_histories
from state.peer_machine import PeerMachine

if TYPE_CHECKING:
    from state.peer_site import PeerSite

pytestmark = pytest.mark.integration


@pytest.mark.timeout(0 if HISTORIES else 900)
def test_every_history_of_an_archive_with_two_programs_keeps_each_record(peer_site: Callable[..., PeerSite]) -> None:
    class Peer(PeerMachine):
        create = staticmethod(peer_site)

    try_histories(Peer, few=2)
