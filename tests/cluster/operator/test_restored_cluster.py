"""A cluster that was restored from a backup of etcd is seen as it is now, not as it was before.

Real etcd: its content is copied, the cluster changes, and the copy is put back, so that all resource versions fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster.operator.conftest import a_place, operators_of, server_with_definitions, soon
from kit.cluster.kubelet import Kubelet

if TYPE_CHECKING:
    from kit.cluster.api_server import ApiServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own_server() -> Iterator[ApiServer]:
    """An API server that no other test uses."""
    with server_with_definitions() as server:
        yield server


def change(place: Any, times: int) -> None:
    """Let the resource versions grow."""
    for number in range(times):
        place.kafka("kafka", bootstrapServers=f"kafka-{number}:9092")


def test_nothing_that_was_seen_before_a_restore_is_believed_after_it(own_server: ApiServer, tmp_path: Path) -> None:
    with Kubelet(own_server) as kubelet, a_place(own_server, kubelet) as place:
        place.gap_scan("kept", suspend=True)
        change(place, 20)
        copy = own_server.backup()
        with operators_of(own_server, place, tmp_path) as start:
            running = start(relist_seconds=2)
            place.gap_scan("ghost", suspend=True)
            place.until("GapScan", "ghost", "Reconciling", "False", "Suspended")
            place.until("GapScan", "kept", "Reconciling", "False", "Suspended")
            change(place, 100)
            own_server.restore(copy)
            assert running.process.wait(60) == 1, running.log.read_text()[-3000:]
            told = [line["error"] for line in running.lines() if line["event"] == "the cluster was restored"]
            assert "was restored from a backup" in told[0]
            # What Kubernetes does with a container that has ended.
            again = start(relist_seconds=2)
            place.gap_scan("kept", source={"gapTopic": {"topic": "other"}}, suspend=True)
            soon(again.ready, seconds=60)
            place.until("GapScan", "kept", "Reconciling", "False", "Suspended", seconds=60)
            assert again.process.poll() is None
